-- select_threads --
-- The beginning of every query that returns threads. db/rows.py reads these columns.
SELECT t.pk, t.id, t.resource, t.created_at, t.updated_at, t.last_seq, t.title, t.current_task, t.suggested_response,
  t.hinted_title, t.hinted_at, t.hinted_seq, k.id AS active_task, t.active_session, t.overrides, t.metadata, t.cloned_from
FROM threads t LEFT JOIN tasks k ON k.pk = t.active_task_pk

-- create_thread --
-- Two callers may create the same thread at the same time. The second one gets no row.
INSERT INTO threads (resource, id, created_at, updated_at, title, metadata, overrides, cloned_from)
VALUES (:resource, :thread, :now, :now, :title, :metadata, :overrides, :cloned_from)
ON CONFLICT (resource, id) DO NOTHING
RETURNING pk

-- get_thread --
{select_threads}
WHERE t.resource = :resource AND t.id = :thread

-- neighbours --
-- The ids before and after an id, in the order of the index, so that few rows are read however many threads there are.
SELECT id FROM (SELECT id FROM threads WHERE resource = :resource AND id < :thread ORDER BY id DESC LIMIT :limit) AS before
UNION ALL
SELECT id FROM (SELECT id FROM threads WHERE resource = :resource AND id > :thread ORDER BY id LIMIT :limit) AS after

-- list_threads --
-- Newest activity first. A page begins after the key of a row, so that threads may be added and deleted between pages.
{select_threads}
WHERE t.resource = :resource AND (t.updated_at, t.pk) < (:before_at, :before_pk)
ORDER BY t.updated_at DESC, t.pk DESC
LIMIT :limit

-- update_thread --
UPDATE threads
SET title = :title, metadata = :metadata, overrides = :overrides, updated_at = :now
WHERE resource = :resource AND id = :thread

-- lock_thread --
-- A writer locks the row of the thread first, so that the writers of one thread run one after the other on both engines. The column
-- is in no index, because SQLite would also write to the index.
UPDATE threads SET created_at = created_at WHERE resource = :resource AND id = :thread
RETURNING pk, last_seq

-- thread_keys --
SELECT id, pk FROM threads WHERE resource = :resource AND id IN (:threads[])

-- lock_key --
-- Several threads are locked one by one, by rising keys, to avoid deadlocks.
UPDATE threads SET created_at = created_at WHERE pk = :thread_pk

-- delete_thread --
-- The schema also deletes its messages, cursors, runs and groups, and its log if no other thread shares it.
DELETE FROM threads WHERE resource = :resource AND id = :thread

-- count_threads --
SELECT COUNT(*) AS threads FROM threads WHERE resource = :resource

-- list_resources --
-- For the administration of the database only, because other callers act for one resource.
SELECT resource FROM threads GROUP BY resource
UNION
SELECT resource FROM tasks GROUP BY resource
UNION
SELECT resource FROM working_memory GROUP BY resource
UNION
SELECT resource FROM items GROUP BY resource
UNION
SELECT resource FROM logs GROUP BY resource
UNION
SELECT resource FROM usage GROUP BY resource
UNION
SELECT resource FROM calibrations GROUP BY resource
UNION
SELECT resource FROM events GROUP BY resource

-- list_forgotten --
SELECT resource FROM tombstones GROUP BY resource

-- set_last_seq --
UPDATE threads SET last_seq = :last_seq, waits_since = updated_at WHERE pk = :thread_pk

-- copy_messages --
-- The rows of a clone are new messages with new ids. Order, times, counts and texts are copied.
SELECT seq, id, continuation, role, tokens, created_at, state, own, level, zone, speaker, pairs, metadata, parts, injection, search,
  pruned, compaction_pk, file_tokens, reported_file_tokens
FROM messages
WHERE thread_pk = :thread_pk AND seq > :after
ORDER BY seq
LIMIT :limit

-- insert_copy --
INSERT INTO messages (thread_pk, seq, id, continuation, role, tokens, created_at, state, own, level, zone, speaker, pairs,
  metadata, parts, injection, search, pruned, compaction_pk, file_tokens, reported_file_tokens)
VALUES (:thread_pk, :seq, :id, :continuation, :role, :tokens, :created_at, :state, :own, :level, :zone, :speaker, :pairs,
  :metadata, :parts, :injection, :search, :pruned, :compaction_pk,
  :file_tokens, :reported_file_tokens)

-- newest_threads --
-- The threads of all resources, or of one, the latest active first.
{select_threads}
WHERE (CAST(:resource AS TEXT) IS NULL OR t.resource = :resource) AND (t.updated_at, t.pk) < (:before_at, :before_pk)
ORDER BY t.updated_at DESC, t.pk DESC
LIMIT :limit
