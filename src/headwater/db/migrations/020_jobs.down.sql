DROP TRIGGER settle_waiting ON url_frontier;
DROP FUNCTION settle_waiting_jobs();
DROP TABLE ingestion_jobs;
DROP FUNCTION settle_jobs(bigint[]);
DROP FUNCTION page_waited_for(bigint);
