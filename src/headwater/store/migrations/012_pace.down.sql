ALTER TABLE feed_state DROP COLUMN next_request_at;
