-- name: server_time
SELECT clock_timestamp()

-- name: server_version
SELECT current_setting('server_version_num')::int

-- name: server_encoding
SELECT current_setting('server_encoding')
