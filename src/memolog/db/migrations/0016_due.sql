-- The last message of a thread up to which no background work is left. It only saves time: if it is too small, a worker looks at
-- the thread once more. What makes covered messages uncovered again sets it to 0.
ALTER TABLE threads ADD COLUMN looked_seq BIGINT NOT NULL DEFAULT 0;
-- The threads that a worker must look at, the longest idle first.
CREATE INDEX threads_unlooked ON threads (updated_at, pk) WHERE last_seq > looked_seq;
-- The runs without a result, by the end of their lease.
CREATE INDEX runs_open ON runs (lease_until) WHERE status IN ('running', 'failed');
