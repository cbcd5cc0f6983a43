DROP TRIGGER settle_waiting ON url_frontier;
DROP TABLE ingestion_jobs;
DROP FUNCTION record_failed_jobs, settle_waiting_jobs, settle_jobs, find_final_page;
