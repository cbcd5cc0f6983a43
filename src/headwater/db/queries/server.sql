-- name: server_time
SELECT clock_timestamp()

-- name: has_fetcher
-- Whether a program that fetches pages is connected to this database. $1 its name
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1)

-- name: list_processes
-- The programs on this database, by name and machine. The driver's own name of a session is left out. $1 beginning of the names
SELECT application_name AS name, host(client_addr) AS address, count(*) AS connections, min(backend_start) AS since
FROM pg_stat_activity
WHERE datname = current_database() AND starts_with(application_name, $1)
GROUP BY 1, 2 ORDER BY 1, 2

-- name: server_encoding
SELECT current_setting('server_encoding')
