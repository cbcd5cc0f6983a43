CREATE INDEX changes_time ON changes USING brin (changed_at) WITH (autosummarize = on);
ALTER TABLE changes DROP COLUMN leads;
