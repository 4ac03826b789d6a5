-- Since when a thread has had messages that no worker has looked at. NULL means that no background work is left in it. Only the first
-- message after a look changes the column, so that the other saves do not write to its index.
ALTER TABLE threads ADD COLUMN waits_since BIGINT;
UPDATE threads SET waits_since = updated_at WHERE last_seq > looked_seq;
DROP INDEX threads_unlooked;
ALTER TABLE threads DROP COLUMN looked_seq;
-- The threads that a worker must look at, the longest waiting first.
CREATE INDEX threads_waiting ON threads (waits_since, pk) WHERE waits_since IS NOT NULL;
