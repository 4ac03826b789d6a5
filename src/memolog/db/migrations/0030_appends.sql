-- How many increments of `version` only added groups at the end of a log. The others, but for `run_changes`, changed its groups.
ALTER TABLE logs ADD COLUMN appends BIGINT NOT NULL DEFAULT 0;
