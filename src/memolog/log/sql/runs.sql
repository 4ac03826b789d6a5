-- take_log --
-- Compare and swap. No row is returned if the log has changed or belongs to another resource.
UPDATE logs SET version = version + 1, run_changes = run_changes + 1
WHERE pk = :log_pk AND version = :version AND resource = :resource
RETURNING pk

-- take_logs_of --
-- Like `take_log_of`. The runs of one model call have the same log.
UPDATE logs SET version = version WHERE pk IN (SELECT r.log_pk FROM runs r WHERE r.id IN (:ids[]))

-- take_log_of --
-- Locks the log before its run. All transactions that end runs lock in this order, to avoid deadlocks.
UPDATE logs SET version = version WHERE pk = (SELECT r.log_pk FROM runs r WHERE r.id = :id)

-- start_run --
-- The unique index over live spans refuses a second run over the same messages.
INSERT INTO runs (id, log_pk, kind, thread_pk, first_seq, last_seq, owner, lease_until, heartbeat_at, started_at, inputs)
VALUES (:id, :log_pk, :kind, :thread_pk, :first_seq, :last_seq, :owner, :lease_until, :now, :now, :inputs)

-- take_over --
-- A single conditional statement, so that only one of several processes gets the run. The fence rises. A run of a dead process
-- can be taken over before its lease ends, if :beats is still the last beat of that process. Only a failed run counts as another
-- attempt, an interrupted run does not.
UPDATE runs SET status = 'running', owner = :owner, fence = fence + 1,
  attempt = attempt + CASE WHEN status = 'failed' THEN 1 ELSE 0 END, lease_until = :lease_until,
  heartbeat_at = :now, error = NULL, retry_at = NULL
WHERE id = :id AND fence = :fence AND log_pk IN (SELECT l.pk FROM logs l WHERE l.resource = :resource)
  AND (status = 'failed' OR (status = 'running' AND (lease_until <= :now
    OR EXISTS (SELECT 1 FROM processes p WHERE p.owner = runs.owner AND p.beats = :beats))))
RETURNING fence

-- heartbeat --
UPDATE runs SET lease_until = :lease_until, heartbeat_at = :now
WHERE id = :id AND owner = :owner AND fence = :fence AND status = 'running'
  AND log_pk IN (SELECT l.pk FROM logs l WHERE l.resource = :resource)
RETURNING fence

-- end_run --
-- An owner that has lost its lease has an old fence, so its update changes no row. If the model's answer was cut off, :last_seq is
-- before the end of the span, and another run can observe the messages after it.
UPDATE runs SET status = 'done', finished_at = :now, model = :model, prompt_version = :prompt_version,
  last_seq = CASE WHEN CAST(:last_seq AS BIGINT) < last_seq THEN CAST(:last_seq AS BIGINT) ELSE last_seq END,
  input_tokens = input_tokens + :input_tokens, output_tokens = output_tokens + :output_tokens, cost = cost + :cost, error = NULL
WHERE id = :id AND owner = :owner AND fence = :fence AND status = 'running'
  AND log_pk IN (SELECT l.pk FROM logs l WHERE l.resource = :resource)
RETURNING pk, log_pk, thread_pk, first_seq, last_seq, inputs

-- fail_run --
UPDATE runs SET status = 'failed', error = :error, retry_at = :retry_at, lease_until = :now
WHERE id = :id AND owner = :owner AND fence = :fence AND status = 'running'
  AND log_pk IN (SELECT l.pk FROM logs l WHERE l.resource = :resource)
RETURNING log_pk

-- abandon_run --
UPDATE runs SET status = 'abandoned', finished_at = :now, error = :error
WHERE id = :id AND owner = :owner AND fence = :fence AND status = 'running'
  AND log_pk IN (SELECT l.pk FROM logs l WHERE l.resource = :resource)
RETURNING log_pk, inputs

-- set_run_inputs --
UPDATE runs SET inputs = :inputs WHERE id = :id

-- give_back_run --
-- 0 is in the past by every clock.
UPDATE runs SET lease_until = 0
WHERE id = :id AND owner = :owner AND fence = :fence AND status = 'running'
  AND log_pk IN (SELECT l.pk FROM logs l WHERE l.resource = :resource)

-- note_failure --
UPDATE logs SET failures = failures + 1, retry_at = :retry_at, last_error = :error, last_error_at = :now, version = version + 1,
  run_changes = run_changes + 1
WHERE pk = :log_pk
RETURNING failures

-- is_running --
SELECT 1 FROM runs r WHERE r.id = :id AND r.log_pk = :log_pk AND r.status = 'running'

-- select_runs --
SELECT r.id, r.kind, r.status, t.id AS thread, r.first_seq, r.last_seq, r.inputs, r.attempt, r.model, r.prompt_version, r.started_at,
  r.finished_at, r.retry_at, r.error, r.input_tokens, r.output_tokens, r.cost, r.log_pk, r.thread_pk, l.last_success_at
FROM runs r JOIN logs l ON l.pk = r.log_pk LEFT JOIN threads t ON t.pk = r.thread_pk

-- get_run --
{select_runs}
WHERE l.resource = :resource AND r.id = :id

-- get_runs --
{select_runs}
WHERE l.resource = :resource AND r.id IN (:ids[])

-- list_runs --
{select_runs}
WHERE l.resource = :resource AND (CAST(:log_pk AS BIGINT) IS NULL OR l.pk = :log_pk)
ORDER BY r.pk DESC
LIMIT :limit

-- keep_prompt --
-- Nothing is stored for an abandoned run, because its prompt may contain forgotten messages.
INSERT INTO run_prompts (run_pk, call, prompt, reply)
SELECT r.pk, COALESCE((SELECT MAX(p.call) FROM run_prompts p WHERE p.run_pk = r.pk), 0) + 1, :prompt, :reply
FROM runs r JOIN logs l ON l.pk = r.log_pk WHERE l.resource = :resource AND r.id = :id AND r.status = 'running'

-- list_prompts --
SELECT p.call, p.prompt, p.reply
FROM run_prompts p JOIN runs r ON r.pk = p.run_pk JOIN logs l ON l.pk = r.log_pk
WHERE l.resource = :resource AND r.id = :id
ORDER BY p.call

-- add_event --
INSERT INTO events (resource, thread_pk, at, kind, data)
VALUES (:resource, (SELECT t.pk FROM threads t WHERE t.resource = :resource AND t.id = :thread), :at, :kind, :data)

-- select_events --
SELECT e.pk, e.at, e.kind, t.id AS thread, e.data FROM events e LEFT JOIN threads t ON t.pk = e.thread_pk

-- list_events --
{select_events}
WHERE e.resource = :resource AND (CAST(:thread AS TEXT) IS NULL OR t.id = :thread) AND e.pk > :after
ORDER BY e.pk
LIMIT :limit

-- newest_events --
{select_events}
WHERE e.resource = :resource AND e.pk < :before AND (CAST(:thread AS TEXT) IS NULL OR t.id = :thread)
  AND (:any_kind = 1 OR e.kind IN (:kinds[]))
ORDER BY e.pk DESC
LIMIT :limit

-- pulse --
-- At least one of these numbers differs after a change of the resource's logs, messages, working memory, tasks or events.
SELECT
  (SELECT CAST(COALESCE(SUM(l.version), 0) AS BIGINT) FROM logs l WHERE l.resource = :resource),
  (SELECT CAST(COALESCE(SUM(t.last_seq + 1), 0) AS BIGINT) FROM threads t WHERE t.resource = :resource),
  (SELECT CAST(COALESCE(SUM(w.version), 0) AS BIGINT) FROM working_memory w WHERE w.resource = :resource),
  (SELECT CAST(COALESCE(SUM(k.version + k.blocked), 0) AS BIGINT) FROM tasks k WHERE k.resource = :resource),
  (SELECT CAST(COALESCE(MAX(e.pk), 0) AS BIGINT) FROM events e WHERE e.resource = :resource)

-- pulse_all --
-- The same for the whole database.
SELECT
  (SELECT CAST(COALESCE(SUM(l.version), 0) AS BIGINT) FROM logs l),
  (SELECT CAST(COALESCE(SUM(t.last_seq + 1), 0) AS BIGINT) FROM threads t),
  (SELECT CAST(COALESCE(SUM(w.version), 0) AS BIGINT) FROM working_memory w),
  (SELECT CAST(COALESCE(SUM(k.version + k.blocked), 0) AS BIGINT) FROM tasks k),
  (SELECT CAST(COALESCE(MAX(e.pk), 0) AS BIGINT) FROM events e)
