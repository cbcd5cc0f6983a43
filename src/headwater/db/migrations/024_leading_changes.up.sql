-- A change leads where it is later than all that come before it in the order. The first change since a time always does, and
-- those that do are in the same order by position and by time: so it is found at once, though most are only nearly so.
ALTER TABLE changes ADD COLUMN leads boolean NOT NULL DEFAULT false;
UPDATE changes c SET leads = true
FROM (SELECT id, changed_at, max(changed_at) OVER (ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS latest
      FROM changes WHERE position IS NOT NULL) known
WHERE c.id = known.id AND known.changed_at > coalesce(known.latest, '-infinity');
CREATE INDEX changes_leading ON changes (changed_at) WHERE leads;
DROP INDEX changes_time;
