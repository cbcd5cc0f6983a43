DROP TABLE fetch_log;
DROP TABLE frontier_queue;
DROP TABLE url_frontier;
DROP TABLE host_state;
