DROP TRIGGER settle_waiting ON url_frontier;
DROP TABLE job_counts, ingestion_jobs;
DROP FUNCTION count_jobs, record_failed_jobs, settle_waiting_jobs, settle_jobs, find_final_page;
