-- select_messages --
-- The beginning of every query that returns messages. db/rows.py reads these columns.
SELECT t.resource, t.id AS thread, m.seq, m.id, m.continuation, m.role, m.tokens, m.created_at, m.state, m.own, m.level, m.zone,
  m.speaker, k.id AS task, m.metadata, m.parts, m.injection, m.search, m.pruned, m.turn, m.file_tokens,
  m.reported_file_tokens
FROM threads t JOIN messages m ON m.thread_pk = t.pk LEFT JOIN tasks k ON k.pk = m.task_pk

-- advance --
-- Locks the row of the thread and allocates numbers in one statement, so that numbers have no gaps and rise in commit order.
UPDATE threads SET last_seq = last_seq + :count, updated_at = :now
WHERE resource = :resource AND id = :thread
RETURNING pk, last_seq, active_task_pk, waits_since

-- begin_to_wait --
-- The first new message since a worker looked at the thread. `advance` has locked the row.
UPDATE threads SET waits_since = :now WHERE pk = :thread_pk

-- give_back --
-- No other transaction has allocated a number meanwhile, because `advance` has locked the row.
UPDATE threads SET last_seq = last_seq - :count WHERE pk = :thread_pk

-- insert_message --
-- If the id is stored already, no row is returned, and the caller compares the contents.
INSERT INTO messages (thread_pk, seq, id, continuation, role, tokens, created_at, own, task_pk, turn, zone, speaker, pairs, metadata,
  parts, file_tokens)
VALUES (:thread_pk, :seq, :id, :continuation, :role, :tokens, :created_at, :own, :task_pk, :turn, :zone, :speaker,
  :pairs, :metadata, :parts, :file_tokens)
ON CONFLICT (thread_pk, id, continuation) DO NOTHING
RETURNING seq

-- insert_messages --
INSERT INTO messages (thread_pk, seq, id, continuation, role, tokens, created_at, own, task_pk, turn, zone, speaker, pairs, metadata,
  parts, file_tokens)
VALUES (:thread_pk, :seq, :id, :continuation, :role, :tokens, :created_at, :own, :task_pk, :turn, :zone, :speaker,
  :pairs, :metadata, :parts, :file_tokens)

-- known_ids --
SELECT m.id FROM messages m JOIN threads t ON t.pk = m.thread_pk
WHERE t.resource = :resource AND t.id = :thread AND m.id IN (:ids[])

-- by_id --
{select_messages}
WHERE t.resource = :resource AND t.id = :thread AND m.id = :id
ORDER BY m.continuation

-- by_id_anywhere --
-- An id is unique in its thread only. Other threads of the resource may have the same id.
{select_messages}
WHERE t.resource = :resource AND m.id = :id
ORDER BY t.pk, m.seq

-- after --
{select_messages}
WHERE t.resource = :resource AND t.id = :thread AND m.seq > :after AND m.seq <= :up_to
ORDER BY m.seq
LIMIT :limit

-- newest_of --
-- Numbers have no gaps, so the newest rows of several threads are found without counting. `may_differ` says whether a row may
-- differ from the saved message. The others need not be read if the caller has cached them.
SELECT m.thread_pk, m.seq, m.pk, m.id,
  CASE WHEN m.state <> 'live' OR m.level <> 0 OR m.pruned <> 0 OR m.task_pk IS NOT NULL OR m.file_tokens IS NOT NULL
    THEN 1 ELSE 0 END AS may_differ
FROM threads t JOIN messages m ON m.thread_pk = t.pk
WHERE t.pk IN (:threads[]) AND m.seq > t.last_seq - :newest
ORDER BY m.thread_pk, m.seq

-- by_keys --
{select_messages}
WHERE m.pk IN (:keys[])
ORDER BY m.thread_pk, m.seq

-- since --
{select_messages}
WHERE m.thread_pk = :thread_pk AND m.seq >= :first
ORDER BY m.seq

-- tail --
-- Every row from `known` on. Of the rows between `after` and `known`, only those that may differ from the saved message, because
-- the caller has cached the others. Their condition is that of an index, so that the others are not even looked at.
{select_messages}
WHERE m.thread_pk = :thread_pk AND m.seq >= :known
UNION ALL
{select_messages}
WHERE m.thread_pk = :thread_pk AND m.seq > :after AND m.seq < :known
  AND (m.state <> 'live' OR m.level <> 0 OR m.pruned <> 0 OR m.task_pk IS NOT NULL OR m.file_tokens IS NOT NULL)
ORDER BY seq

-- sizes --
-- The newest rows before a number, without the columns that can be large.
SELECT seq, tokens, state, turn, file_tokens, reported_file_tokens
FROM messages
WHERE thread_pk = :thread_pk AND seq > :after AND seq < :before
ORDER BY seq DESC
LIMIT :limit

-- oldest_of --
-- The first rows after a number, with the columns that `decide` needs.
SELECT seq, tokens, role, created_at, state, pairs, turn, file_tokens, reported_file_tokens
FROM messages
WHERE thread_pk = :thread_pk AND seq > :after
ORDER BY seq
LIMIT :limit

-- before --
{select_messages}
WHERE t.resource = :resource AND t.id = :thread AND m.seq < :before
ORDER BY m.seq DESC
LIMIT :limit

-- live_counts --
-- Numbers have no gaps, so the last number is the count of all rows. The rows that are not live are counted in an index.
SELECT t.id AS thread,
  t.last_seq - (SELECT COUNT(*) FROM messages m WHERE m.thread_pk = t.pk AND m.state <> 'live') AS messages,
  CASE WHEN t.last_seq < :up_to THEN t.last_seq ELSE CAST(:up_to AS BIGINT) END
  - (SELECT COUNT(*) FROM messages m WHERE m.thread_pk = t.pk AND m.seq <= :up_to AND m.state <> 'live') AS up_to
FROM threads t
WHERE t.resource = :resource AND t.id IN (:threads[])

-- count_said --
SELECT COUNT(*) AS messages FROM messages WHERE thread_pk = :thread_pk AND seq > :after AND seq < :before AND state = 'live' AND own = 0

-- last_user --
-- A user message that has only tool results is not a request.
{select_messages}
WHERE m.thread_pk = :thread_pk AND m.seq <= :up_to AND m.role = 'user' AND m.state = 'live' AND m.pairs IS NULL AND m.pruned = 0
ORDER BY m.seq DESC
LIMIT 1

-- note_unseen --
-- The first unseen message of a turn does not change until a reply comes. Another process may continue the turn.
INSERT INTO unseen (thread_pk, turn, first_seq, owner)
SELECT t.pk, CAST(:turn AS TEXT), CAST(:first_seq AS BIGINT), CAST(:owner AS TEXT)
FROM threads t WHERE t.resource = :resource AND t.id = :thread
ON CONFLICT (thread_pk, turn) DO UPDATE SET owner = excluded.owner

-- clear_unseen --
DELETE FROM unseen
WHERE turn = :turn AND first_seq < :before
  AND thread_pk = (SELECT t.pk FROM threads t WHERE t.resource = :resource AND t.id = :thread)

-- take_unseen --
-- A turn that saves the same messages again continues the earlier turn.
DELETE FROM unseen
WHERE turn <> :turn AND first_seq IN (:seqs[])
  AND thread_pk = (SELECT t.pk FROM threads t WHERE t.resource = :resource AND t.id = :thread)

-- last_reply --
SELECT m.seq FROM messages m JOIN threads t ON t.pk = m.thread_pk
WHERE t.resource = :resource AND t.id = :thread AND m.role = 'assistant' AND m.state = 'live'
ORDER BY m.seq DESC
LIMIT 1

-- set_reported --
-- Only the first report is stored, because the estimate of a file must not change again and again.
UPDATE messages SET reported_file_tokens = :reported
WHERE thread_pk = (SELECT t.pk FROM threads t WHERE t.resource = :resource AND t.id = :thread)
  AND seq = :seq AND file_tokens IS NOT NULL AND reported_file_tokens IS NULL AND state = 'live'
