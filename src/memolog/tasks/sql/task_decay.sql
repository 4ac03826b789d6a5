-- due_to_decay --
-- Tasks that were closed before a time, and not restored after it.
SELECT pk, summary, metadata, description, archive, version FROM tasks
WHERE resource = :resource AND status = 'closed' AND level = :level AND closed_at <= :before
  AND (restored_at IS NULL OR restored_at <= :before)
ORDER BY closed_at, pk
LIMIT :limit

-- kept --
SELECT archive FROM tasks WHERE pk = :task_pk

-- decay --
-- The version and the time stay, because no user changed the task. A task that was edited after it was read is skipped.
UPDATE tasks SET level = :level, summary = :summary, metadata = :metadata, description = :description, archive = :archive
WHERE pk = :task_pk AND level = :old_level AND status = 'closed' AND version = :version
RETURNING handle

-- restore --
UPDATE tasks SET level = 0, summary = :summary, metadata = :metadata, description = :description, archive = NULL,
  restored_at = :now
WHERE pk = :task_pk AND level > 0
RETURNING handle
