DROP TABLE delivery_log, deliveries, webhooks;
DROP TRIGGER note_failed ON ingestion_jobs;
DROP TRIGGER note_changed ON documents;
DROP TRIGGER note_new ON documents;
DROP FUNCTION note_failed_jobs, note_changed_documents, note_new_documents;
DROP TABLE change_state, changes;
