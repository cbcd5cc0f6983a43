-- How a source's requests are made, as its kind says: {"user_agent", "api_hosts", "budget"}. Kept by its polls, so that
-- the pages of its items are asked for likewise without the kind being loaded.
ALTER TABLE sources ADD COLUMN asking jsonb NOT NULL DEFAULT '{}';
