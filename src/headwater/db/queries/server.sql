-- name: server_time
SELECT clock_timestamp()

-- name: server_encoding
SELECT current_setting('server_encoding')
