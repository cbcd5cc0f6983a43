DROP TRIGGER IF EXISTS trg_update_ingestion_handoff_timestamp ON ingestion_handoffs;
DROP TABLE IF EXISTS handoff_counts, ingestion_handoffs;
DROP FUNCTION IF EXISTS update_ingestion_handoff_timestamp();
DROP FUNCTION IF EXISTS count_handoffs();
