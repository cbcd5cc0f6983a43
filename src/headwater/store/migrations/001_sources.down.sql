DROP TABLE feed_state;
DROP TABLE sources;
