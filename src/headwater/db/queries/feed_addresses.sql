-- name: add_feed_address
-- $1 name, $2 SHA-256 of the secret part, $3 kind, $4 value, $5 whether with the text, $6 now. Returns no row if the name is taken.
INSERT INTO feed_addresses (name, digest, kind, value, with_text, created_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (name) DO NOTHING
RETURNING *

-- name: list_feed_addresses
SELECT * FROM feed_addresses ORDER BY name

-- name: remove_feed_address
-- $1 name
DELETE FROM feed_addresses WHERE name = $1 RETURNING name

-- name: find_feed_address
-- $1 SHA-256 of the secret part
SELECT * FROM feed_addresses WHERE digest = $1

-- name: set_feed_address_used
-- $1 name, $2 now, $3 if it was not used since
UPDATE feed_addresses SET last_used_at = $2 WHERE name = $1 AND (last_used_at IS NULL OR last_used_at < $3)
