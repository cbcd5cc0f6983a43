DROP TABLE poll_state;
DROP TABLE sources;
