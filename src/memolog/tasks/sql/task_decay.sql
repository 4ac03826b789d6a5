-- due_to_decay --
-- Closed for long enough, counted from the last restore if there was one.
SELECT pk, summary, metadata, description, archive, version FROM tasks
WHERE resource = :resource AND status = 'closed' AND level = :level AND closed_at <= :before
  AND (restored_at IS NULL OR restored_at <= :before)
ORDER BY closed_at, pk
LIMIT :limit

-- kept --
SELECT archive FROM tasks WHERE pk = :task_pk

-- decay --
-- Neither the version nor the time changes: who wrote the task did not. What was edited since it was read waits for the next time.
UPDATE tasks SET level = :level, summary = :summary, metadata = :metadata, description = :description, archive = :archive
WHERE pk = :task_pk AND level = :old_level AND status = 'closed' AND version = :version
RETURNING handle

-- restore --
UPDATE tasks SET level = 0, summary = :summary, metadata = :metadata, description = :description, archive = NULL,
  restored_at = :now
WHERE pk = :task_pk AND level > 0
RETURNING handle
