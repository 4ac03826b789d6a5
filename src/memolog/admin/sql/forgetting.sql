-- tombstone --
-- The row stays with its number and token count, but without its content.
UPDATE messages SET state = 'forgotten', parts = '[]', injection = NULL, search = NULL, metadata = '{}', speaker = NULL, zone = NULL,
  pairs = NULL, level = 0, task_pk = NULL, compaction_pk = NULL
WHERE thread_pk = :thread_pk AND seq >= :first_seq AND seq <= :last_seq AND state <> 'forgotten'
RETURNING seq

-- older --
-- The messages that were created before a time.
SELECT t.id, m.seq FROM messages m JOIN threads t ON t.pk = m.thread_pk
WHERE t.resource = :resource AND m.state <> 'forgotten' AND m.created_at < :before
ORDER BY t.id, m.seq

-- unlink_tasks --
DELETE FROM task_messages WHERE thread_pk = :thread_pk AND seq >= :first_seq AND seq <= :last_seq
RETURNING seq

-- count_task_rows --
SELECT COUNT(*) AS counted FROM messages
WHERE thread_pk = :thread_pk AND seq >= :first_seq AND seq <= :last_seq AND task_pk IS NOT NULL

-- count_documents --
SELECT COUNT(*) AS counted FROM search_docs d JOIN messages m ON m.pk = d.source_pk
WHERE d.doc > 0 AND d.thread_pk = :thread_pk AND m.thread_pk = :thread_pk AND m.seq >= :first_seq AND m.seq <= :last_seq

-- count_extracts --
SELECT COUNT(*) AS counted FROM extracts WHERE thread_pk = :thread_pk AND first_seq <= :last_seq AND last_seq >= :first_seq

-- count_compactions --
SELECT COUNT(*) AS counted FROM compactions WHERE thread_pk = :thread_pk AND first_seq <= :last_seq AND last_seq >= :first_seq

-- clear_group_hints --
-- An observer is shown the hints of the previous group, so the hints of all later groups may repeat the message.
UPDATE groups SET hints = NULL
WHERE hints IS NOT NULL AND ((thread_pk = :thread_pk AND last_seq >= :first_seq)
  OR (kind = 'reflection' AND log_pk IN (SELECT c.log_pk FROM cursors c WHERE c.thread_pk = :thread_pk)))

-- clear_thread_hints --
UPDATE threads SET current_task = NULL, suggested_response = NULL, hinted_title = NULL, hinted_at = NULL
WHERE pk = :thread_pk AND hinted_seq >= :first_seq
  AND (current_task IS NOT NULL OR suggested_response IS NOT NULL OR hinted_title IS NOT NULL)
RETURNING pk

-- delete_prompts --
-- The prompts of the logs of the thread, except those that were sent before the message was observed.
DELETE FROM run_prompts WHERE run_pk IN (SELECT r.pk FROM runs r JOIN cursors c ON c.log_pk = r.log_pk
  WHERE c.thread_pk = :thread_pk AND (COALESCE(r.thread_pk, 0) <> :thread_pk OR r.last_seq >= :first_seq))
RETURNING run_pk

-- delete_prompts_of_log --
-- All later prompts may contain the observation, and the stored reply of its run contains it.
DELETE FROM run_prompts WHERE run_pk IN (SELECT r.pk FROM runs r WHERE r.log_pk = :log_pk)
RETURNING run_pk

-- clear_run_errors --
-- An error may quote the reply of a model.
UPDATE runs SET error = NULL
WHERE error IS NOT NULL AND log_pk IN (SELECT c.log_pk FROM cursors c WHERE c.thread_pk = :thread_pk)

-- clear_log_errors --
UPDATE logs SET last_error = NULL
WHERE last_error IS NOT NULL AND pk IN (SELECT c.log_pk FROM cursors c WHERE c.thread_pk = :thread_pk)

-- delete_telling_events --
-- The kinds of events that may quote messages.
DELETE FROM events WHERE thread_pk = :thread_pk AND kind IN ('HintsChanged', 'TitleChanged', 'RunFailed', 'Degraded')
RETURNING pk

-- counts_of_thread --
SELECT (SELECT COUNT(*) FROM messages WHERE thread_pk = :thread_pk AND state <> 'forgotten') AS messages,
  (SELECT COUNT(*) FROM groups WHERE thread_pk = :thread_pk AND state <> 'void') AS groups,
  (SELECT COUNT(*) FROM runs WHERE thread_pk = :thread_pk AND status IN ('running', 'failed')) AS runs,
  (SELECT COUNT(*) FROM threads WHERE pk = :thread_pk
    AND (current_task IS NOT NULL OR suggested_response IS NOT NULL OR hinted_title IS NOT NULL)) AS hints,
  (SELECT COUNT(*) FROM working_memory d JOIN working_memory_versions v ON v.document_pk = d.pk
    WHERE d.thread_pk = :thread_pk) AS working_memory,
  (SELECT COUNT(*) FROM task_messages WHERE thread_pk = :thread_pk)
    + (SELECT COUNT(*) FROM messages WHERE thread_pk = :thread_pk AND task_pk IS NOT NULL) AS task_links,
  (SELECT COUNT(*) FROM extracts WHERE thread_pk = :thread_pk) AS extracts,
  (SELECT COUNT(*) FROM compactions WHERE thread_pk = :thread_pk) AS compactions,
  (SELECT COUNT(*) FROM contexts WHERE thread_pk = :thread_pk) AS contexts,
  (SELECT COUNT(*) FROM events WHERE thread_pk = :thread_pk) AS events,
  (SELECT COUNT(*) FROM usage WHERE thread_pk = :thread_pk) AS usage,
  (SELECT COUNT(*) FROM search_docs WHERE doc > 0 AND thread_pk = :thread_pk) AS index_docs

-- lines_of_log --
SELECT o.id FROM observations o JOIN groups g ON g.pk = o.group_pk WHERE g.log_pk = :log_pk AND o.state <> 'deleted' ORDER BY o.pk

-- delete_lease --
DELETE FROM leases WHERE resource = :resource AND name = :name

-- threads_of_resource --
SELECT id FROM threads WHERE resource = :resource ORDER BY pk

-- logs_of_resource --
SELECT pk FROM logs WHERE resource = :resource ORDER BY pk

-- counts_of_resource --
SELECT (SELECT COUNT(*) FROM tasks WHERE resource = :resource) AS tasks,
  (SELECT COUNT(*) FROM events WHERE resource = :resource AND thread_pk IS NULL) AS events,
  (SELECT COUNT(*) FROM usage WHERE resource = :resource AND thread_pk IS NULL) AS usage,
  (SELECT COUNT(*) FROM working_memory d JOIN working_memory_versions v ON v.document_pk = d.pk
    WHERE d.resource = :resource AND d.thread_pk IS NULL) AS working_memory,
  (SELECT COUNT(*) FROM items WHERE resource = :resource) AS items,
  (SELECT COUNT(*) FROM run_prompts p JOIN runs r ON r.pk = p.run_pk JOIN logs l ON l.pk = r.log_pk
    WHERE l.resource = :resource) AS prompts,
  (SELECT COUNT(*) FROM leases WHERE resource = :resource) + (SELECT COUNT(*) FROM calibrations WHERE resource = :resource)
    + (SELECT COUNT(*) FROM resource_settings WHERE resource = :resource) AS others

-- delete_tasks --
DELETE FROM tasks WHERE resource = :resource

-- delete_task_book --
DELETE FROM task_books WHERE resource = :resource

-- delete_threads --
DELETE FROM threads WHERE resource = :resource

-- delete_logs --
DELETE FROM logs WHERE resource = :resource

-- delete_leases --
DELETE FROM leases WHERE resource = :resource

-- delete_documents --
DELETE FROM working_memory WHERE resource = :resource

-- delete_items --
DELETE FROM items WHERE resource = :resource

-- delete_events --
DELETE FROM events WHERE resource = :resource

-- delete_settings --
DELETE FROM resource_settings WHERE resource = :resource

-- delete_calibrations --
DELETE FROM calibrations WHERE resource = :resource

-- old_prompts --
DELETE FROM run_prompts WHERE run_pk IN (SELECT r.pk FROM runs r JOIN logs l ON l.pk = r.log_pk
  WHERE l.resource = :resource AND r.started_at < :before)
RETURNING run_pk

-- old_events --
DELETE FROM events WHERE resource = :resource AND at < :before
RETURNING pk

-- old_contexts --
-- The newest record of a thread stays, because the number of the next record is computed from it.
DELETE FROM contexts WHERE at < :before AND thread_pk IN (SELECT t.pk FROM threads t WHERE t.resource = :resource)
  AND number < (SELECT MAX(x.number) FROM contexts x WHERE x.thread_pk = contexts.thread_pk)
RETURNING number
