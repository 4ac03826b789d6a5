-- holder --
-- The update locks the row, so that the lease does not change until this transaction ends.
UPDATE leases SET fence = fence WHERE resource = :resource AND name = :name AND owner IS NOT NULL
RETURNING owner, fence, expires_at

-- prolong --
-- A lease that no other session took over can be renewed, even if it has expired.
UPDATE leases SET expires_at = :expires_at
WHERE resource = :resource AND name = :name AND owner = :session
RETURNING fence

-- free --
UPDATE leases SET owner = NULL, expires_at = 0 WHERE resource = :resource AND name = :name AND owner IS NOT NULL

-- take_task --
-- Called by the session that has the lease. Returns no row if the task is closed or blocked.
UPDATE tasks SET status = 'in_progress', session = :session, assignee = COALESCE(assignee, :assignee),
  lease_micros = :lease_micros, updated_at = :now, version = version + 1
WHERE pk = :task_pk AND status <> 'closed' AND blocked = 0
RETURNING pk

-- let_go --
UPDATE tasks SET status = 'open', session = NULL, lease_micros = NULL, updated_at = :now, version = version + 1
WHERE pk = :task_pk AND status = 'in_progress'
RETURNING pk

-- close_task --
UPDATE tasks SET status = 'closed', close_reason = :reason, summary = :summary, closed_at = :now, lease_micros = NULL,
  updated_at = :now, version = version + 1
WHERE pk = :task_pk AND status <> 'closed'
RETURNING pk

-- reopen_task --
UPDATE tasks SET status = 'open', close_reason = NULL, summary = NULL, closed_at = NULL, session = NULL, restored_at = NULL,
  updated_at = :now, version = version + 1
WHERE pk = :task_pk AND status = 'closed'
RETURNING pk

-- set_active --
UPDATE threads SET active_task_pk = :task_pk, active_session = :session WHERE resource = :resource AND id = :thread
RETURNING pk

-- clear_active --
UPDATE threads SET active_task_pk = NULL, active_session = NULL WHERE active_task_pk = :task_pk

-- held --
-- The active task of a thread, if the session that claimed it there still has the lease.
SELECT k.pk, k.id, l.expires_at, k.lease_micros, l.fence, l.name, l.owner FROM threads t
JOIN tasks k ON k.pk = t.active_task_pk AND k.status = 'in_progress'
JOIN leases l ON l.resource = t.resource AND l.name = 'task:' || k.id AND l.owner = t.active_session AND l.expires_at > :now
WHERE t.pk = :thread_pk

-- renew_held --
UPDATE leases SET expires_at = :expires_at
WHERE resource = (SELECT t.resource FROM threads t WHERE t.pk = :thread_pk) AND name = :name AND owner = :owner AND fence = :fence
