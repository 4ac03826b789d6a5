-- select_messages --
-- The columns that db/rows.py reads.
SELECT t.resource, t.id AS thread, m.seq, m.id, m.continuation, m.role, m.tokens, m.created_at, m.state, m.own, m.level, m.zone,
  m.speaker, k.id AS task, m.metadata, m.parts, m.injection, m.search, m.pruned, m.turn, m.file_tokens,
  m.reported_file_tokens

-- linked --
-- Messages that were saved while the task was active, or linked by a call. Each message is returned once, the oldest first.
{select_messages}, m.pk,
  (SELECT MIN(x.kind) FROM task_messages x WHERE x.task_pk = :task_pk AND x.thread_pk = m.thread_pk AND x.seq = m.seq) AS kind
FROM messages m JOIN threads t ON t.pk = m.thread_pk LEFT JOIN tasks k ON k.pk = m.task_pk
WHERE m.pk IN (SELECT a.pk FROM messages a WHERE a.task_pk = :task_pk
    UNION SELECT b.pk FROM task_messages x JOIN messages b ON b.thread_pk = x.thread_pk AND b.seq = x.seq WHERE x.task_pk = :task_pk)
  AND m.state = 'live'
  AND (m.created_at > :at OR (m.created_at = :at AND m.pk > :pk))
ORDER BY m.created_at, m.pk
LIMIT :limit

-- count_linked --
SELECT COUNT(*) AS messages FROM messages m
WHERE m.pk IN (SELECT a.pk FROM messages a WHERE a.task_pk = :task_pk
    UNION SELECT b.pk FROM task_messages x JOIN messages b ON b.thread_pk = x.thread_pk AND b.seq = x.seq WHERE x.task_pk = :task_pk)
  AND m.state = 'live'

-- by_ids --
SELECT m.thread_pk, m.seq, m.id, m.pk FROM messages m JOIN threads t ON t.pk = m.thread_pk
WHERE t.resource = :resource AND (CAST(:thread AS TEXT) IS NULL OR t.id = :thread) AND m.id IN (:ids[]) AND m.state <> 'forgotten'

-- by_span --
SELECT m.thread_pk, m.seq, m.id, m.pk FROM messages m JOIN threads t ON t.pk = m.thread_pk
WHERE t.resource = :resource AND t.id = :thread AND m.seq BETWEEN :first AND :last AND m.state <> 'forgotten'

-- attach --
-- Returns only new links.
INSERT INTO task_messages (task_pk, thread_pk, seq, kind)
SELECT CAST(:task_pk AS BIGINT), m.thread_pk, m.seq, CAST(:kind AS TEXT) FROM messages m WHERE m.pk IN (:pks[])
ON CONFLICT (task_pk, thread_pk, seq, kind) DO NOTHING
RETURNING seq

-- detach --
DELETE FROM task_messages WHERE task_pk = :task_pk AND thread_pk = :thread_pk AND seq = :seq
RETURNING seq

-- unlink_own --
UPDATE messages SET task_pk = NULL WHERE thread_pk = :thread_pk AND seq = :seq AND task_pk = :task_pk
RETURNING seq

-- observations --
-- Active observations that cite at least one message of a task. A buffered reflection repeats lines that are still active.
SELECT o.id, g.id AS group_id, o.ordinal, o.priority, o.text, o.said_at, o.zone, o.about, o.parent, o.verbatim, o.trust, o.grounded,
  o.category, o.files, o.metadata, o.state, o.tokens, o.pk
FROM observations o JOIN groups g ON g.pk = o.group_pk
WHERE o.state = 'active' AND (g.state = 'active' OR (g.state = 'buffered' AND g.kind = 'observer')) AND o.pk IN (
  SELECT s.observation_pk FROM observation_sources s
  JOIN messages m ON m.thread_pk = s.thread_pk AND m.seq BETWEEN s.first_seq AND s.last_seq AND m.state = 'live'
  WHERE m.task_pk = :task_pk
  UNION
  SELECT s.observation_pk FROM task_messages x
  JOIN observation_sources s ON s.thread_pk = x.thread_pk AND x.seq BETWEEN s.first_seq AND s.last_seq
  WHERE x.task_pk = :task_pk)
ORDER BY o.said_at, g.pk, o.ordinal
LIMIT :limit

-- sources --
SELECT o.id AS observation, t.id AS thread, s.first_seq, s.last_seq FROM observations o
JOIN observation_sources s ON s.observation_pk = o.pk JOIN threads t ON t.pk = s.thread_pk
WHERE o.pk IN (:pks[])
ORDER BY o.pk, t.pk, s.first_seq
