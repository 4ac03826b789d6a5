-- add_usage --
-- If no task is passed, the request of a turn counts for the task that its thread is working on, and the request of an observer
-- for the task that more than half of the observed messages belong to.
INSERT INTO usage (resource, thread_pk, task_pk, run, kind, model, at, input_tokens, output_tokens, cache_read_tokens,
  cache_write_tokens, cost)
VALUES (:resource,
  (SELECT t.pk FROM threads t WHERE t.resource = :resource AND t.id = :thread),
  COALESCE((SELECT k.pk FROM tasks k WHERE k.resource = :resource AND k.id = :task),
    (SELECT k.pk FROM threads t
      JOIN tasks k ON k.pk = t.active_task_pk AND k.status = 'in_progress'
      JOIN leases l ON l.resource = t.resource AND l.name = 'task:' || k.id AND l.owner = t.active_session
      WHERE t.resource = :resource AND t.id = :thread AND :kind = 'turn' AND l.expires_at > :at),
    (SELECT m.task_pk FROM runs r
      JOIN messages m ON m.thread_pk = r.thread_pk AND m.seq BETWEEN r.first_seq AND r.last_seq AND m.task_pk IS NOT NULL
      WHERE r.id = :run AND :kind = 'observe'
      GROUP BY m.task_pk, r.first_seq, r.last_seq
      HAVING COUNT(*) * 2 > r.last_seq - r.first_seq + 1)),
  :run, :kind, :model, :at, :input_tokens, :output_tokens, :cache_read_tokens, :cache_write_tokens, :cost)

-- sum_usage --
SELECT u.kind, u.model, COUNT(*) AS requests, SUM(u.input_tokens) AS input_tokens, SUM(u.output_tokens) AS output_tokens,
  SUM(u.cache_read_tokens) AS cache_read_tokens, SUM(u.cache_write_tokens) AS cache_write_tokens, SUM(u.cost) AS cost
FROM usage u
LEFT JOIN threads t ON t.pk = u.thread_pk
LEFT JOIN tasks k ON k.pk = u.task_pk
WHERE u.resource = :resource AND u.at >= :since
  AND (CAST(:thread AS TEXT) IS NULL OR t.id = :thread)
  AND (CAST(:task AS TEXT) IS NULL OR k.id = :task)
GROUP BY u.kind, u.model
ORDER BY u.kind, u.model

-- sum_by_thread --
-- The usage of each thread, the most expensive first. Requests outside of threads have no thread.
SELECT t.id AS thread, COUNT(*) AS requests, SUM(u.input_tokens) AS input_tokens, SUM(u.output_tokens) AS output_tokens,
  SUM(u.cache_read_tokens) AS cache_read_tokens, SUM(u.cache_write_tokens) AS cache_write_tokens, SUM(u.cost) AS cost
FROM usage u
LEFT JOIN threads t ON t.pk = u.thread_pk
WHERE u.resource = :resource AND u.at >= :since
GROUP BY t.id
ORDER BY SUM(u.cost) DESC, SUM(u.input_tokens + u.output_tokens) DESC, t.id
LIMIT :limit

-- sum_spent --
-- The sum of all resources, for a budget of the whole database. Requests of turns are those of the agent, which have no budget.
SELECT COALESCE(SUM(u.cost), 0) AS cost FROM usage u WHERE u.kind <> 'turn'

-- sum_spent_outside --
-- The same for the requests of a resource that belong to no thread. The costs of forgotten threads lost their thread. Those of
-- observers, which always have one, are not counted.
SELECT COALESCE(SUM(u.cost), 0) AS cost FROM usage u
WHERE u.resource = :resource AND u.thread_pk IS NULL AND u.kind IN ('reflect', 'other')

-- calibrations_of --
-- All calibrations of a resource. Python code compares the names, because one model can have several names.
SELECT model, factor, samples FROM calibrations WHERE resource = :resource ORDER BY samples DESC, model

-- take_calibration --
-- Locks the row, if there is one.
UPDATE calibrations SET samples = samples WHERE resource = :resource AND model = :model
RETURNING model, factor, samples

-- start_calibration --
-- Creates the row, or locks it if another transaction has created it meanwhile.
INSERT INTO calibrations (resource, model, factor, samples) VALUES (:resource, :model, :factor, :samples)
ON CONFLICT (resource, model) DO UPDATE SET samples = calibrations.samples
RETURNING model, factor, samples

-- put_calibration --
UPDATE calibrations SET factor = :factor, samples = :samples WHERE resource = :resource AND model = :model

-- set_last_model --
UPDATE threads SET last_model = :model
WHERE resource = :resource AND id = :thread AND (last_model IS NULL OR last_model <> :model)
