-- name: all_due
-- Every feed is due now, whenever it would have been.
UPDATE poll_state SET next_poll_at = now() - interval '1 second'

-- name: count_items
SELECT count(*) FROM items
