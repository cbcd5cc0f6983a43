-- name: server_time
SELECT clock_timestamp()

-- name: has_fetcher
-- Whether a program that fetches pages is connected to this database. $1 its name
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1)

-- name: server_encoding
SELECT current_setting('server_encoding')
