-- The messages that may differ from what was saved, because they were removed, compacted, pruned or counted for a task, or because
-- a provider may report the tokens of their files. They are few, and a turn reads these and the new ones, not its whole tail.
CREATE INDEX messages_changed ON messages (thread_pk, seq)
WHERE state <> 'live' OR level <> 0 OR pruned <> 0 OR task_pk IS NOT NULL OR file_tokens IS NOT NULL;
