-- candidates --
-- The messages from the first one that may be compacted, with the columns of `select_messages` and compaction_pk.
-- With :again = 1, messages that were restored by hand may be compacted.
SELECT t.resource, t.id AS thread, m.seq, m.id, m.continuation, m.role, m.tokens, m.created_at, m.state, m.own, m.level, m.zone,
  m.speaker, k.id AS task, m.metadata, m.parts, m.injection, m.search, m.pruned, m.turn, m.file_tokens,
  m.reported_file_tokens, m.compaction_pk
FROM threads t JOIN messages m ON m.thread_pk = t.pk LEFT JOIN tasks k ON k.pk = m.task_pk
WHERE t.resource = :resource AND t.id = :thread AND m.seq >= (
  SELECT MIN(x.seq) FROM messages x
  WHERE x.thread_pk = t.pk AND x.seq > :after AND x.level = 0 AND x.state = 'live' AND x.pruned = 0
    AND (x.compaction_pk IS NULL OR CAST(:again AS BIGINT) = 1))
ORDER BY m.seq
LIMIT :limit

-- due --
-- The last message of the last batch, and how many messages after it may be compacted. Reads only the messages after the batch.
SELECT e.last_seq, COUNT(m.seq) AS messages
FROM threads t
JOIN (SELECT COALESCE((SELECT c.last_seq FROM compactions c JOIN threads x ON x.pk = c.thread_pk
    WHERE x.resource = :resource AND x.id = :thread ORDER BY c.first_seq DESC LIMIT 1), 0) AS last_seq) e ON 1 = 1
LEFT JOIN messages m ON m.thread_pk = t.pk AND m.seq > e.last_seq AND m.seq <= t.last_seq - :keep
  AND m.level = 0 AND m.state = 'live' AND m.pruned = 0
WHERE t.resource = :resource AND t.id = :thread
GROUP BY e.last_seq

-- rows_of_span --
SELECT seq, state, level, injection, search, pruned FROM messages
WHERE thread_pk = :thread_pk AND seq >= :first_seq AND seq <= :last_seq
ORDER BY seq

-- insert_compaction --
INSERT INTO compactions (id, thread_pk, first_seq, last_seq, level, created_at, restored_at, summary, before)
VALUES (:id, :thread_pk, :first_seq, :last_seq, :level, :now, :restored_at, :summary, :before)
RETURNING pk

-- compact_message --
UPDATE messages SET level = 1, injection = :injection, search = :search, compaction_pk = :compaction_pk
WHERE thread_pk = :thread_pk AND seq = :seq

-- select_compactions --
SELECT c.pk, c.id, t.id AS thread, c.first_seq, c.last_seq, c.level, c.summary, c.created_at, c.restored_at, c.before, c.thread_pk
FROM compactions c JOIN threads t ON t.pk = c.thread_pk

-- compactions_of --
{select_compactions}
WHERE t.resource = :resource AND t.id = :thread
ORDER BY c.first_seq, c.pk

-- compaction_by_id --
{select_compactions}
WHERE t.resource = :resource AND t.id = :thread AND c.id = :id

-- due_for_depth --
{select_compactions}
WHERE t.resource = :resource AND t.id = :thread AND c.level = 1 AND c.restored_at IS NULL AND c.last_seq <= t.last_seq - :keep
ORDER BY c.first_seq

-- deepen_message --
UPDATE messages SET level = 2, search = :search
WHERE thread_pk = :thread_pk AND seq = :seq AND compaction_pk = :compaction_pk AND level = 1 AND state = 'live'

-- set_level --
UPDATE compactions SET level = :level WHERE pk = :compaction_pk

-- restore_message --
-- Forgotten messages stay empty. compaction_pk stays, so that the restored messages are not compacted again automatically.
UPDATE messages SET level = :level, injection = :injection, search = :search
WHERE thread_pk = :thread_pk AND seq = :seq AND compaction_pk = :compaction_pk AND state <> 'forgotten' AND pruned = 0

-- mark_restored --
UPDATE compactions SET restored_at = :now WHERE pk = :compaction_pk

-- pruned_in --
SELECT COUNT(*) AS messages FROM messages WHERE thread_pk = :thread_pk AND compaction_pk = :compaction_pk AND pruned = 1

-- compactions_over --
-- The batches that some messages belong to. The summary of a batch may quote any of its messages.
{select_compactions}
WHERE c.thread_pk = :thread_pk AND c.first_seq <= :last_seq AND c.last_seq >= :first_seq

-- clear_pruned --
-- A pruned message has no raw text to restore. Its other texts are emptied, because they may quote the withdrawn messages.
UPDATE messages SET injection = '', search = ''
WHERE thread_pk = :thread_pk AND compaction_pk = :compaction_pk AND pruned = 1 AND state <> 'forgotten'

-- delete_compaction --
DELETE FROM compactions WHERE pk = :compaction_pk

-- lines_over --
-- The observations about a span, also those that a reflection has replaced.
SELECT o.pk, o.id, o.text, o.priority, s.first_seq, s.last_seq, g.handle
FROM threads t
JOIN observation_sources s ON s.thread_pk = t.pk
JOIN observations o ON o.pk = s.observation_pk
JOIN groups g ON g.pk = o.group_pk
JOIN logs l ON l.pk = g.log_pk
WHERE t.resource = :resource AND t.id = :thread AND s.first_seq <= :last_seq AND s.last_seq >= :first_seq
  AND g.kind = 'observer' AND g.state IN ('active', 'covered') AND o.state NOT IN ('retracted', 'deleted')
  AND COALESCE(l.thread_pk, 0) = CASE WHEN CAST(:shared AS BIGINT) = 1 THEN 0 ELSE t.pk END
ORDER BY g.pk, o.ordinal, s.first_seq

-- prunable --
-- The messages that have a raw text, with the facts that decide whether it may be removed.
SELECT m.seq, m.created_at, m.level,
  CASE WHEN EXISTS (SELECT 1 FROM groups g WHERE g.thread_pk = t.pk AND g.kind = 'observer' AND g.state IN ('active', 'covered')
    AND g.observations > 0 AND g.first_seq <= m.seq AND g.last_seq >= m.seq) THEN 1 ELSE 0 END AS is_observed,
  CASE WHEN k.status <> 'closed' OR EXISTS (SELECT 1 FROM task_messages x JOIN tasks y ON y.pk = x.task_pk
    WHERE x.thread_pk = t.pk AND x.seq = m.seq AND y.status <> 'closed') THEN 1 ELSE 0 END AS is_open
FROM threads t JOIN messages m ON m.thread_pk = t.pk LEFT JOIN tasks k ON k.pk = m.task_pk
WHERE t.pk = :thread_pk AND m.state = 'live' AND m.pruned = 0
ORDER BY m.seq

-- indexed_texts --
SELECT seq, search FROM messages WHERE thread_pk = :thread_pk AND state = 'live' AND seq IN (:seqs[])

-- prune_message --
UPDATE messages SET parts = '[]', pruned = 1, search = :search
WHERE thread_pk = :thread_pk AND seq = :seq AND state = 'live'

-- set_before --
UPDATE compactions SET before = :before WHERE pk = :compaction_pk

-- copy_compactions --
SELECT pk, first_seq, last_seq, level, created_at, restored_at, summary, before FROM compactions
WHERE thread_pk = :thread_pk
ORDER BY pk
