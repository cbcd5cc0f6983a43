-- name: add_token
-- $1 name, $2 SHA-256 of the token, $3 scope, $4 now, $5 when it expires, or NULL
INSERT INTO api_tokens (name, digest, scope, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO NOTHING
RETURNING *

-- name: list_tokens
SELECT * FROM api_tokens ORDER BY name

-- name: remove_token
-- $1 name
DELETE FROM api_tokens WHERE name = $1 RETURNING name

-- name: set_token_used
-- $1 SHA-256 of the token, $2 now
UPDATE api_tokens SET last_used_at = $2 WHERE digest = $1
