-- Which processes are at work: a process that carries out runs or has turns open counts up its beats every second or two.
-- Whether one is alive is judged by its beats; a lease is only the longest that anybody waits.
CREATE TABLE processes (
  owner TEXT PRIMARY KEY,
  beats BIGINT NOT NULL,
  beat_at BIGINT NOT NULL
);

-- How many of a log's versions were made by runs that began, ended or failed: they leave its active groups as they are.
ALTER TABLE logs ADD COLUMN run_changes BIGINT NOT NULL DEFAULT 0;
