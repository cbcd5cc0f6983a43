ALTER TABLE sources DROP COLUMN asking;
