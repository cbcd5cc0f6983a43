-- name: count_overdue_leases
-- How many leases of any kind are past their end. $1 now
SELECT (SELECT count(*) FROM frontier_queue WHERE lease_token IS NOT NULL AND lease_until <= $1)
     + (SELECT count(*) FROM host_state WHERE lease_token IS NOT NULL AND lease_until <= $1)
     + (SELECT count(*) FROM poll_state WHERE lease_token IS NOT NULL AND lease_until <= $1)
     + (SELECT count(*) FROM runs WHERE lease_token IS NOT NULL AND lease_until <= $1)
     + (SELECT count(*) FROM canonical_state WHERE lease_token IS NOT NULL AND lease_until <= $1)
     + (SELECT count(*) FROM deliveries WHERE lease_token IS NOT NULL AND lease_until <= $1)
