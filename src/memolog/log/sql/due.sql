-- touched --
-- A page of the threads with messages that no worker has looked at yet, of all resources, the longest waiting first. :scope is
-- the scope that the configuration sets, as JSON. If it sets none, the stored scope of the resource counts.
SELECT t.pk AS thread_pk, t.resource, t.waits_since AS at,
  COALESCE(CAST(:scope AS TEXT), (SELECT s.value FROM resource_settings s WHERE s.resource = t.resource AND s.name = 'scope'),
    '"thread"') AS scope
FROM threads t
WHERE t.waits_since IS NOT NULL AND (t.waits_since, t.pk) > (:after_at, :after_pk)
ORDER BY t.waits_since, t.pk
LIMIT :limit

-- threads_of --
-- A page of all threads of a resource, in the same form, the longest idle first.
SELECT t.pk AS thread_pk, t.resource, t.updated_at AS at,
  COALESCE(CAST(:scope AS TEXT), (SELECT s.value FROM resource_settings s WHERE s.resource = t.resource AND s.name = 'scope'),
    '"thread"') AS scope
FROM threads t
WHERE t.resource = :resource AND (t.updated_at, t.pk) > (:after_at, :after_pk)
ORDER BY t.updated_at, t.pk
LIMIT :limit

-- open_runs --
-- The logs whose runs may be taken over or tried again. A run without a thread belongs to any thread of the shared log.
SELECT l.resource, COALESCE(l.thread_pk, 0) AS owner,
  COALESCE(r.thread_pk, l.thread_pk, (SELECT MAX(x.pk) FROM threads x WHERE x.resource = l.resource)) AS thread_pk
FROM runs r JOIN logs l ON l.pk = r.log_pk
WHERE r.status IN ('running', 'failed') AND r.lease_until <= :now

-- no_runs --
-- No rows, in the form of `open_runs`.
SELECT t.resource, t.pk AS owner, t.pk AS thread_pk FROM threads t WHERE t.pk < 0

-- work --
-- The end of a query after WITH touched AS (…), open AS (…). One row for each thread with its log: `owner` is the thread of the
-- log, or 0 for a shared log. Of a shared log there is a row for each thread that it does not cover completely. The columns that
-- begin with page_ are the size and the end of `touched`.
members AS (
  SELECT resource, CASE scope WHEN '"resource"' THEN 0 ELSE thread_pk END AS owner, thread_pk FROM touched
  UNION
  SELECT resource, owner, thread_pk FROM open WHERE thread_pk IS NOT NULL
  UNION
  SELECT t.resource, 0 AS owner, t.pk AS thread_pk
  FROM (SELECT resource FROM touched WHERE scope = '"resource"' UNION SELECT resource FROM open WHERE owner = 0) AS shared
  JOIN threads t ON t.resource = shared.resource
  LEFT JOIN logs l ON l.resource = t.resource AND COALESCE(l.thread_pk, 0) = 0
  LEFT JOIN cursors c ON c.log_pk = l.pk AND c.thread_pk = t.pk
  WHERE t.last_seq > COALESCE(c.seq, 0)
),
placed AS (
  SELECT x.resource, x.owner, x.thread_pk, l.pk AS log_pk, l.version, l.generation, l.failures, l.retry_at,
    COALESCE(c.seq, 0) AS cursor
  FROM members x
  LEFT JOIN logs l ON l.resource = x.resource AND COALESCE(l.thread_pk, 0) = x.owner
  LEFT JOIN cursors c ON c.log_pk = l.pk AND c.thread_pk = x.thread_pk
),
uncovered AS (
  SELECT p.owner, p.thread_pk, m.seq, m.tokens, m.created_at,
    CASE WHEN EXISTS (SELECT 1 FROM groups g WHERE g.log_pk = p.log_pk AND g.state = 'buffered' AND g.thread_pk = p.thread_pk
        AND m.seq BETWEEN g.first_seq AND g.last_seq) THEN 2
      WHEN EXISTS (SELECT 1 FROM runs r WHERE r.log_pk = p.log_pk AND r.status IN ('running', 'failed')
        AND r.thread_pk = p.thread_pk AND m.seq BETWEEN r.first_seq AND r.last_seq) THEN 1
    ELSE 0 END AS taken
  FROM placed p JOIN messages m ON m.thread_pk = p.thread_pk AND m.seq > p.cursor AND m.state = 'live'
),
tails AS (
  SELECT u.owner, u.thread_pk, CAST(SUM(u.tokens) AS BIGINT) AS uncovered,
    CAST(SUM(CASE WHEN u.taken = 0 THEN u.tokens ELSE 0 END) AS BIGINT) AS free,
    COUNT(CASE WHEN u.taken = 0 THEN 1 END) AS waiting, MIN(CASE WHEN u.taken = 0 THEN u.seq END) AS first_waiting,
    MAX(CASE WHEN u.taken > 0 THEN u.seq END) AS last_taken, MIN(CASE WHEN u.taken < 2 THEN u.created_at END) AS oldest
  FROM uncovered u
  GROUP BY u.owner, u.thread_pk
)
SELECT p.resource, p.owner, p.thread_pk, t.id AS thread, t.last_seq, t.updated_at, t.overrides, t.last_model, t.hinted_seq,
  p.log_pk, p.version, p.generation, p.failures, p.retry_at, COALESCE(s.uncovered, 0) AS uncovered, COALESCE(s.free, 0) AS free,
  COALESCE(s.waiting, 0) AS waiting, s.first_waiting, s.last_taken, s.oldest,
  (SELECT COUNT(*) FROM runs r WHERE r.log_pk = p.log_pk AND r.status IN ('running', 'failed')) AS runs,
  (SELECT COUNT(*) FROM runs r WHERE r.log_pk = p.log_pk AND r.status = 'running' AND r.kind = 'observe') AS observing,
  (SELECT COUNT(*) FROM runs r WHERE r.log_pk = p.log_pk AND r.status = 'running' AND r.lease_until <= :now) AS expired,
  (SELECT MIN(COALESCE(r.retry_at, 0)) FROM runs r WHERE r.log_pk = p.log_pk AND r.status = 'failed') AS next_try,
  (SELECT CAST(COALESCE(SUM(g.tokens), 0) AS BIGINT) FROM log_entries e JOIN groups g ON g.pk = e.group_pk
    WHERE e.log_pk = p.log_pk AND e.generation = p.generation) AS log_tokens,
  (SELECT n.tokens_after FROM generations n WHERE n.log_pk = p.log_pk AND n.number = p.generation) AS settled_tokens,
  (SELECT COUNT(*) FROM runs r WHERE r.log_pk = p.log_pk AND r.status IN ('running', 'failed') AND r.kind = 'reflect')
    + (SELECT COUNT(*) FROM groups g WHERE g.log_pk = p.log_pk AND g.state = 'buffered' AND g.kind = 'reflection') AS reflections,
  (SELECT COUNT(*) FROM touched) AS page_size, (SELECT MAX(x.at) FROM touched x) AS page_at,
  (SELECT MAX(x.thread_pk) FROM touched x WHERE x.at = (SELECT MAX(y.at) FROM touched y)) AS page_pk
FROM placed p JOIN threads t ON t.pk = p.thread_pk LEFT JOIN tails s ON s.owner = p.owner AND s.thread_pk = p.thread_pk
ORDER BY t.updated_at, t.pk

-- due --
WITH touched AS ({touched}), open AS ({open_runs}), {work}

-- due_of --
WITH touched AS ({threads_of}), open AS ({no_runs}), {work}

-- entries --
-- What `condensable` needs of the groups of a log. The texts are not read.
SELECT g.id, g.handle, g.kind, g.tokens, g.observations, g.last_at
FROM log_entries e JOIN groups g ON g.pk = e.group_pk
WHERE e.log_pk = :log_pk AND e.generation = :generation
ORDER BY e.position

-- held --
-- The runs whose lease has not ended. The first condition is that of the index.
SELECT COUNT(*) AS runs, MIN(r.lease_until) AS first_end FROM runs r
WHERE r.status IN ('running', 'failed') AND r.status = 'running' AND r.lease_until > :now

-- mark --
-- Only if nothing has changed since the rows were read.
UPDATE threads SET waits_since = NULL
WHERE pk = :thread_pk AND last_seq = :last_seq AND waits_since IS NOT NULL
  AND (CAST(:log_pk AS BIGINT) IS NULL OR EXISTS (SELECT 1 FROM logs l WHERE l.pk = :log_pk AND l.version = :version))

-- look_again --
-- Messages of the thread are not covered any more.
UPDATE threads SET waits_since = updated_at WHERE pk = :thread_pk AND waits_since IS NULL

-- defer --
-- One waiting job for each log. If there is one already, nothing is added. No error is raised, so that the transaction of the
-- caller can go on.
INSERT INTO procrastinate_jobs (queue_name, task_name, queueing_lock, args)
VALUES (:queue, :task, :key, CAST(:arguments AS JSONB))
ON CONFLICT (queueing_lock) WHERE status = 'todo' DO NOTHING
RETURNING id

-- hold_job --
-- A worker that takes this job before the caller commits would not see what the caller has saved. It skips locked jobs, and callers
-- do not exclude each other.
SELECT id FROM procrastinate_jobs WHERE queueing_lock = :key AND status = 'todo' FOR KEY SHARE
