-- select_tasks --
-- The beginning of every query that returns tasks. tasks/rows.py reads these columns. A claim is a lease with the id of the task.
SELECT k.pk, k.id, k.handle, k.resource, k.status, k.priority, k.type, k.blocked, k.assignee, k.session, k.defer_until, k.due,
  k.created_at, k.updated_at, k.closed_at, k.close_reason, k.level, k.version, k.title, k.summary, k.metadata, k.description,
  l.owner, l.expires_at
FROM tasks k LEFT JOIN leases l ON l.resource = k.resource AND l.name = 'task:' || k.id

-- filters --
  AND (:any_status = 1 OR k.status IN (:statuses[]))
  AND (:any_type = 1 OR k.type IN (:types[]))
  AND k.priority <= :most_priority
  AND (CAST(:assignee AS TEXT) IS NULL OR k.assignee = :assignee)
  AND (:labelled = 0 OR :labelled = (SELECT COUNT(*) FROM task_labels b WHERE b.task_pk = k.pk AND b.label IN (:labels[])))
  AND (CAST(:parent_pk AS BIGINT) IS NULL OR EXISTS (SELECT 1 FROM task_links p
    WHERE p.source_pk = :parent_pk AND p.target_pk = k.pk AND p.kind = 'parent-child'))

-- find --
-- A task with this id is preferred to a task with this handle, because callers choose ids, which may look like handles.
SELECT k.pk, k.id, k.handle, k.status, k.blocked, k.level, k.version, k.session FROM tasks k
WHERE k.resource = :resource AND (k.id = :task OR k.handle = :handle)
ORDER BY CASE WHEN k.id = :task THEN 0 ELSE 1 END
LIMIT 1

-- by_pk --
{select_tasks}
WHERE k.pk = :task_pk

-- by_ids --
{select_tasks}
WHERE k.resource = :resource AND k.id IN (:ids[])

-- by_title --
{select_tasks}
WHERE k.resource = :resource AND LOWER(k.title) = :title
ORDER BY CASE WHEN k.status = 'closed' THEN 1 ELSE 0 END, k.created_at DESC, k.pk DESC
LIMIT :limit

-- labels_of --
SELECT task_pk, label FROM task_labels WHERE task_pk IN (:pks[])

-- take_book --
-- Transactions that create tasks or change blocking or parent links lock this row first. A count of 0 only locks it.
INSERT INTO task_books (resource, last_handle) VALUES (:resource, :count)
ON CONFLICT (resource) DO UPDATE SET last_handle = task_books.last_handle + excluded.last_handle
RETURNING last_handle

-- insert_task --
-- Returns no row if the id is in use.
INSERT INTO tasks (resource, id, handle, priority, type, assignee, defer_until, due, created_at, updated_at, title, metadata,
  description)
VALUES (:resource, :id, :handle, :priority, :type, :assignee, :defer_until, :due, :now, :now, :title, :metadata, :description)
ON CONFLICT (resource, id) DO NOTHING
RETURNING pk

-- insert_label --
INSERT INTO task_labels (task_pk, label) VALUES (:task_pk, :label) ON CONFLICT (task_pk, label) DO NOTHING

-- delete_label --
DELETE FROM task_labels WHERE task_pk = :task_pk AND label = :label

-- insert_change --
INSERT INTO task_changes (task_pk, at, who, change) VALUES (:task_pk, :now, :who, :change)

-- changes --
SELECT c.at, c.who, c.change, c.pk FROM task_changes c
WHERE c.task_pk = :task_pk AND c.pk > :after
ORDER BY c.pk
LIMIT :limit

-- lock_task --
-- Lock a task before it is read and changed.
UPDATE tasks SET version = version WHERE pk = :task_pk

-- update_task --
UPDATE tasks SET title = :title, description = :description, priority = :priority, type = :type, assignee = :assignee,
  defer_until = :defer_until, due = :due, metadata = :metadata, updated_at = :now, version = version + 1
WHERE pk = :task_pk

-- touch --
UPDATE tasks SET updated_at = :now, version = version + 1 WHERE pk = :task_pk

-- list_tasks --
-- The newest first. The next page begins after the key of the last row.
{select_tasks}
WHERE k.resource = :resource
{filters}
  AND (CAST(:session AS TEXT) IS NULL OR k.session = :session)
  AND (CAST(:blocked AS BIGINT) IS NULL OR k.blocked = :blocked)
  AND (CAST(:due_before AS BIGINT) IS NULL OR k.due < :due_before)
  AND (k.created_at < :before_at OR (k.created_at = :before_at AND k.pk < :before_pk))
ORDER BY k.created_at DESC, k.pk DESC
LIMIT :limit

-- ready_open --
-- By priority, then age. There is an index in this order, which is read from the key of the last row.
{select_tasks}
WHERE k.resource = :resource AND k.status = 'open' AND k.blocked = 0 AND (k.defer_until IS NULL OR k.defer_until <= :now)
  AND (k.priority > :priority OR (k.priority = :priority AND (k.created_at > :at OR (k.created_at = :at AND k.pk > :pk))))
{filters}
ORDER BY k.priority, k.created_at, k.pk
LIMIT :limit

-- ready_ended --
-- A task whose lease has expired is ready again, without any cleanup.
{select_tasks}
WHERE k.resource = :resource AND k.status = 'in_progress' AND k.blocked = 0
  AND (l.owner IS NULL OR l.expires_at <= :now)
  AND (k.defer_until IS NULL OR k.defer_until <= :now)
  AND (k.priority > :priority OR (k.priority = :priority AND (k.created_at > :at OR (k.created_at = :at AND k.pk > :pk))))
{filters}
ORDER BY k.priority, k.created_at, k.pk
LIMIT :limit

-- due_soon --
{select_tasks}
WHERE k.resource = :resource AND k.due <= :until AND CASE WHEN k.status = 'open' AND k.blocked = 0 THEN 1 ELSE 0 END = 1
  AND (k.defer_until IS NULL OR k.defer_until <= :now)
ORDER BY k.due, k.pk
LIMIT :limit

-- counts --
SELECT k.status, k.blocked, COUNT(*) AS tasks FROM tasks k
WHERE k.resource = :resource AND k.status IN ('open', 'in_progress')
GROUP BY k.status, k.blocked

-- count_deferred --
-- CASE prevents the use of the index on the status. The index on `defer_until` has fewer rows.
SELECT COUNT(*) AS tasks FROM tasks k
WHERE k.resource = :resource AND k.defer_until > :now AND CASE WHEN k.status = 'open' AND k.blocked = 0 THEN 1 ELSE 0 END = 1

-- count_ended --
SELECT COUNT(*) AS tasks FROM tasks k LEFT JOIN leases l ON l.resource = k.resource AND l.name = 'task:' || k.id
WHERE k.resource = :resource AND k.status = 'in_progress' AND k.blocked = 0 AND (l.owner IS NULL OR l.expires_at <= :now)
  AND (k.defer_until IS NULL OR k.defer_until <= :now)

-- stale --
-- Tasks without a claim that have not changed since a time, the longest unchanged first.
{select_tasks}
WHERE k.resource = :resource AND k.status <> 'closed' AND k.updated_at < :before
  AND (k.status = 'open' OR l.owner IS NULL OR l.expires_at <= :now)
  AND (k.updated_at > :at OR (k.updated_at = :at AND k.pk > :pk))
ORDER BY k.updated_at, k.pk
LIMIT :limit

-- open_texts --
SELECT k.id, k.handle, k.title, k.status, k.priority, k.blocked FROM tasks k
WHERE k.resource = :resource AND k.status <> 'closed'
ORDER BY k.pk DESC
LIMIT :limit

-- unblocks --
-- The number of tasks that each of these tasks blocks and that are not closed.
SELECT x.source_pk, COUNT(*) AS tasks FROM task_links x JOIN tasks k ON k.pk = x.target_pk
WHERE x.source_pk IN (:pks[]) AND x.kind = 'blocks' AND k.status <> 'closed'
GROUP BY x.source_pk

-- held_tasks --
-- The tasks that a session works on, those of the given session first.
{select_tasks}
WHERE k.resource = :resource AND k.status = 'in_progress' AND l.owner = k.session AND l.expires_at > :now
ORDER BY CASE WHEN l.owner = :session THEN 0 ELSE 1 END, k.priority, k.pk
LIMIT :limit

-- active_of_thread --
-- The active task of a thread, if the session that claimed it there still has the lease.
{select_tasks}
JOIN threads t ON t.active_task_pk = k.pk
WHERE t.resource = :resource AND t.id = :thread AND k.resource = :resource AND k.status = 'in_progress'
  AND l.owner = t.active_session AND l.expires_at > :now
