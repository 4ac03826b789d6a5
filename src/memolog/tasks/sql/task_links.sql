-- select_refs --
SELECT k.id, k.handle, k.title, k.status, k.priority, k.blocked, k.pk

-- insert_link --
INSERT INTO task_links (source_pk, target_pk, kind, created_at) VALUES (:source_pk, :target_pk, :kind, :now)
ON CONFLICT (source_pk, target_pk, kind) DO NOTHING
RETURNING source_pk

-- delete_link --
DELETE FROM task_links WHERE source_pk = :source_pk AND target_pk = :target_pk AND kind = :kind
RETURNING source_pk

-- after_these --
-- The tasks that are blocked by these tasks, and their children.
SELECT source_pk, target_pk FROM task_links WHERE source_pk IN (:pks[]) AND kind IN ('blocks', 'parent-child')

-- before_these --
SELECT source_pk, target_pk FROM task_links WHERE target_pk IN (:pks[]) AND kind IN ('blocks', 'parent-child')

-- handles --
SELECT pk, handle FROM tasks WHERE pk IN (:pks[])

-- settle --
-- Sets the column `blocked` of these tasks by the definition in tasks/rules.py, and returns the tasks that changed. The caller
-- then does the same for the children of the changed tasks.
UPDATE tasks SET blocked = 1 - blocked
WHERE pk IN (:pks[]) AND blocked <> CASE
  WHEN status = 'closed' THEN 0
  WHEN EXISTS (SELECT 1 FROM task_links x JOIN tasks b ON b.pk = x.source_pk
    WHERE x.target_pk = tasks.pk AND x.kind = 'blocks' AND b.status <> 'closed') THEN 1
  WHEN EXISTS (SELECT 1 FROM task_links x JOIN tasks p ON p.pk = x.source_pk
    WHERE x.target_pk = tasks.pk AND x.kind = 'parent-child' AND p.blocked = 1) THEN 1
  ELSE 0 END
RETURNING pk, blocked

-- waiting_for --
-- The tasks that must be updated when the status of a task changes: those that it blocks, and its children.
SELECT target_pk FROM task_links WHERE source_pk = :task_pk AND kind IN ('blocks', 'parent-child')

-- children_of --
SELECT target_pk FROM task_links WHERE source_pk IN (:pks[]) AND kind = 'parent-child'

-- refs --
{select_refs} FROM tasks k
WHERE k.pk IN (:pks[])
ORDER BY k.priority, k.created_at, k.pk

-- neighbours --
-- All tasks that a task is linked to, with the kind and the direction of each link.
{select_refs}, x.kind, CASE WHEN x.source_pk = :task_pk THEN 1 ELSE 0 END AS is_source
FROM task_links x JOIN tasks k ON k.pk = CASE WHEN x.source_pk = :task_pk THEN x.target_pk ELSE x.source_pk END
WHERE x.source_pk = :task_pk OR x.target_pk = :task_pk
ORDER BY k.priority, k.created_at, k.pk

-- open_blockers --
-- The tasks that block some tasks and are not closed.
{select_refs}
FROM task_links x JOIN tasks k ON k.pk = x.source_pk
WHERE x.target_pk IN (:pks[]) AND x.kind = 'blocks' AND k.status <> 'closed'
ORDER BY k.priority, k.created_at, k.pk

-- blocked_parents --
{select_refs}
FROM task_links x JOIN tasks k ON k.pk = x.source_pk
WHERE x.target_pk IN (:pks[]) AND x.kind = 'parent-child' AND k.blocked = 1
ORDER BY k.priority, k.created_at, k.pk

-- open_children --
{select_refs}
FROM task_links x JOIN tasks k ON k.pk = x.target_pk
WHERE x.source_pk = :task_pk AND x.kind = 'parent-child' AND k.status <> 'closed'
ORDER BY k.priority, k.created_at, k.pk
