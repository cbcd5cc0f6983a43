ALTER TABLE poll_state DROP COLUMN next_request_at;
