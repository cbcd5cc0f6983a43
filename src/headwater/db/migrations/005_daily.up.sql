-- What was NEW and what was LATEST on a day of a source's own time zone; derived, rebuilt whole for a (source, day).
CREATE TABLE daily_index (
    source_id  int NOT NULL REFERENCES sources ON DELETE CASCADE,
    day        date NOT NULL,
    item_id    text NOT NULL REFERENCES items ON DELETE CASCADE,
    bucket     text NOT NULL CHECK (bucket IN ('NEW', 'LATEST')),
    PRIMARY KEY (source_id, day, item_id)
);
CREATE INDEX daily_index_day ON daily_index (day);
