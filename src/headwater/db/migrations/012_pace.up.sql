-- When the next request of a source may be sent, in whatever process.
ALTER TABLE poll_state ADD COLUMN next_request_at timestamptz;
