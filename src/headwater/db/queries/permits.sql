-- name: save_permits
-- Give a source as many permits as it may have requests at the same time. A permit that is in use ends with its request.
-- $1 source, $2 number
WITH gone AS (DELETE FROM source_permits WHERE source_id = $1 AND number > $2::int)
INSERT INTO source_permits (source_id, number) SELECT $1, generate_series(1, $2) ON CONFLICT DO NOTHING

-- name: take_permits
-- Take a permit for each request. A source without permits has no limit. The commit need not wait for the disk: if the server
-- crashes, a permit is free again at its end. Returns the tokens of the requests that may be sent.
-- Arrays: $1 sources, $2 tokens, $3 ends; $4 now
WITH asked AS MATERIALIZED (
    SELECT g.*, row_number() OVER (PARTITION BY source_id ORDER BY place) AS rank
    FROM unnest($1::int[], $2::uuid[], $3::timestamptz[]) WITH ORDINALITY AS g (source_id, token, until, place)
), free AS MATERIALIZED (
    SELECT wanted.source_id, permit.number, row_number() OVER (PARTITION BY wanted.source_id) AS rank
    FROM (SELECT source_id, count(*) AS requests FROM asked GROUP BY 1) wanted
    CROSS JOIN LATERAL (
        -- The lock reads the row again: another process may have taken the permit just before.
        SELECT p.number FROM source_permits p WHERE p.source_id = wanted.source_id AND p.used_until <= $4
        LIMIT wanted.requests
        FOR UPDATE SKIP LOCKED
    ) permit
), taken AS (
    UPDATE source_permits p SET token = asked.token, used_until = asked.until
    FROM free JOIN asked USING (source_id, rank), set_config('synchronous_commit', 'off', true) AS durability
    WHERE p.source_id = ANY ($1) AND p.source_id = free.source_id AND p.number = free.number
    RETURNING p.token
)
SELECT token FROM taken
UNION ALL
SELECT token FROM asked
WHERE (SELECT true FROM source_permits p WHERE p.source_id = asked.source_id LIMIT 1) IS NULL

-- name: free_permits
-- Arrays: $1 sources, $2 tokens
UPDATE source_permits p SET token = NULL, used_until = '-infinity'
FROM set_config('synchronous_commit', 'off', true) AS durability
WHERE p.source_id = ANY ($1::int[]) AND p.token = ANY ($2::uuid[])
