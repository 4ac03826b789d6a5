-- find_log --
-- The log of a thread or, for thread_pk 0, the log that the threads of a resource share.
SELECT l.pk, l.id, l.version, l.generation, l.failures, l.retry_at, l.last_success_at, l.last_error_at, l.last_error,
  g.tokens_after, g.working_memory, l.run_changes, l.appends,
  (SELECT r.inputs FROM runs r WHERE r.log_pk = l.pk AND r.status = 'abandoned' AND r.kind = 'reflect' AND r.error IS NOT NULL
    ORDER BY r.pk DESC LIMIT 1) AS abandoned
FROM logs l JOIN generations g ON g.log_pk = l.pk AND g.number = l.generation
WHERE l.resource = :resource AND COALESCE(l.thread_pk, 0) = :thread_pk

-- create_log --
INSERT INTO logs (id, resource, thread_pk, created_at)
VALUES (:id, :resource, CAST(:thread_pk AS BIGINT), :now)
ON CONFLICT DO NOTHING
RETURNING pk

-- create_generation --
INSERT INTO generations (log_pk, number, kind, created_at, restored_from, tokens_before, tokens_after, dropped, working_memory,
  cause)
VALUES (:log_pk, :number, :kind, :now, :restored_from, :tokens_before, :tokens_after, :dropped, :working_memory, :cause)
RETURNING number, kind, created_at, restored_from, tokens_before, tokens_after, dropped, cause

-- heads --
-- A thread, its log (of the thread itself or, for shared = 1, of the resource) and its cursor there, with the time of the last
-- message that the log covers. The columns of a missing log or cursor are NULL. The last columns say which further rows there may
-- be, because most threads have none of them. The condition of `may_differ` is that of an index; see `other_heads`.
SELECT t.pk, t.last_seq, t.current_task, t.suggested_response, t.hinted_title, t.hinted_at, t.hinted_seq, t.last_request_at,
  t.last_model, t.overrides, t.title, t.created_at, b.last_handle, l.pk AS log_pk, l.id AS log_id, l.version, l.generation,
  l.failures, l.retry_at, l.last_success_at, l.last_error_at, l.last_error, g.tokens_after, g.working_memory, l.run_changes, l.appends,
  (SELECT r.inputs FROM runs r WHERE r.log_pk = l.pk AND r.status = 'abandoned' AND r.kind = 'reflect' AND r.error IS NOT NULL
    ORDER BY r.pk DESC LIMIT 1) AS abandoned,
  c.seq AS cursor_seq, c.alias, m.created_at AS covered_at,
  EXISTS (SELECT 1 FROM groups h WHERE h.log_pk = l.pk AND h.state = 'buffered') AS has_buffered,
  EXISTS (SELECT 1 FROM runs r WHERE r.log_pk = l.pk AND r.status IN ('running', 'failed')) AS has_runs,
  EXISTS (SELECT 1 FROM working_memory d WHERE d.resource = t.resource) AS has_documents,
  EXISTS (SELECT 1 FROM messages n WHERE n.thread_pk = t.pk AND n.seq > COALESCE(c.seq, 0)
    AND (n.state <> 'live' OR n.level <> 0 OR n.pruned <> 0 OR n.task_pk IS NOT NULL OR n.file_tokens IS NOT NULL)) AS may_differ
FROM threads t
LEFT JOIN task_books b ON b.resource = t.resource
LEFT JOIN logs l ON l.resource = t.resource AND COALESCE(l.thread_pk, 0) = CASE WHEN :shared = 1 THEN 0 ELSE t.pk END
LEFT JOIN generations g ON g.log_pk = l.pk AND g.number = l.generation
LEFT JOIN cursors c ON c.log_pk = l.pk AND c.thread_pk = t.pk
LEFT JOIN messages m ON m.thread_pk = c.thread_pk AND m.seq = c.seq
WHERE t.resource = :resource AND t.id = :thread

-- get_cursor --
-- The cursor, and the time of the last message that the log covers.
SELECT c.seq, c.alias, m.created_at
FROM cursors c LEFT JOIN messages m ON m.thread_pk = c.thread_pk AND m.seq = c.seq
WHERE c.log_pk = :log_pk AND c.thread_pk = :thread_pk

-- create_cursor --
-- The alias of a thread is the next free number in this log. It never changes.
INSERT INTO cursors (log_pk, thread_pk, seq, alias)
SELECT CAST(:log_pk AS BIGINT), CAST(:thread_pk AS BIGINT), CAST(:seq AS BIGINT), COALESCE(MAX(c.alias), 0) + 1
FROM cursors c WHERE c.log_pk = :log_pk
ON CONFLICT (log_pk, thread_pk) DO NOTHING

-- create_cursors --
-- Every thread gets its alias before a context shows the thread, so that models never see it by another name.
INSERT INTO cursors (log_pk, thread_pk, seq, alias)
SELECT CAST(:log_pk AS BIGINT), t.pk, 0,
  (SELECT COALESCE(MAX(x.alias), 0) FROM cursors x WHERE x.log_pk = :log_pk) + ROW_NUMBER() OVER (ORDER BY t.pk)
FROM threads t LEFT JOIN cursors c ON c.log_pk = :log_pk AND c.thread_pk = t.pk
WHERE t.resource = :resource AND t.last_seq > 0 AND c.log_pk IS NULL

-- move_cursor --
-- Only a group that begins right after the cursor moves it, so a repeated activation changes nothing.
UPDATE cursors SET seq = :last_seq
WHERE log_pk = :log_pk AND thread_pk = :thread_pk AND seq = :first_seq - 1

-- other_heads --
-- The other threads with messages that the log does not cover, the oldest first. `may_differ` says whether one of these messages
-- may differ from what was saved. Its condition is that of an index.
SELECT t.pk, t.id AS thread, t.created_at, t.last_seq, t.hinted_seq, COALESCE(c.seq, 0) AS cursor, COALESCE(c.alias, 0) AS alias,
  EXISTS (SELECT 1 FROM messages m WHERE m.thread_pk = t.pk AND m.seq > COALESCE(c.seq, 0)
    AND (m.state <> 'live' OR m.level <> 0 OR m.pruned <> 0 OR m.task_pk IS NOT NULL OR m.file_tokens IS NOT NULL)) AS may_differ
FROM threads t LEFT JOIN cursors c ON c.log_pk = :log_pk AND c.thread_pk = t.pk
WHERE t.resource = :resource AND t.pk <> :thread_pk AND t.last_seq > COALESCE(c.seq, 0)
ORDER BY t.pk
LIMIT :limit

-- other_messages --
-- The messages of some threads that the log does not cover, without the columns that can be large.
SELECT m.thread_pk, m.seq, m.tokens, m.role, m.created_at, m.state, m.own, m.pairs, m.turn, m.file_tokens, m.reported_file_tokens
FROM threads t
LEFT JOIN cursors c ON c.log_pk = :log_pk AND c.thread_pk = t.pk
JOIN messages m ON m.thread_pk = t.pk AND m.seq > COALESCE(c.seq, 0)
WHERE t.pk IN (:threads[])
ORDER BY m.thread_pk, m.seq
LIMIT :limit

-- unseen --
-- The first message of each turn that no model has answered yet, in one thread or (thread_pk NULL) in all of the resource.
-- CROSS JOIN makes SQLite begin with the few unseen messages. Otherwise it reads every thread of the resource.
SELECT t.id AS thread, u.turn, u.first_seq, u.owner, p.beats, p.beat_at
FROM unseen u CROSS JOIN threads t LEFT JOIN processes p ON p.owner = u.owner
WHERE t.pk = u.thread_pk AND t.resource = :resource AND (CAST(:thread_pk AS BIGINT) IS NULL OR u.thread_pk = :thread_pk)
ORDER BY u.thread_pk, u.first_seq

-- other_threads --
-- The threads with messages that the log does not cover now, or did not cover in an earlier snapshot (:ends).
SELECT t.pk, t.id, t.last_seq, COALESCE(c.seq, 0) AS cursor, COALESCE(c.alias, 0) AS alias, t.title, t.hinted_title
FROM threads t LEFT JOIN cursors c ON c.log_pk = :log_pk AND c.thread_pk = t.pk
WHERE t.resource = :resource AND t.pk <> :thread_pk AND (t.last_seq > COALESCE(c.seq, 0) OR t.id IN (:ends[]))
ORDER BY t.updated_at DESC, t.pk DESC
LIMIT :limit

-- recent_threads --
-- The threads that were active last, with the log that covers them: their own or (:shared = 1) the shared one, and its cursor.
SELECT t.pk, t.id, t.title, t.hinted_title, t.updated_at, t.last_seq, COALESCE(c.seq, 0) AS cursor
FROM threads t
LEFT JOIN logs l ON l.resource = t.resource AND COALESCE(l.thread_pk, 0) = CASE WHEN :shared = 1 THEN 0 ELSE t.pk END
LEFT JOIN cursors c ON c.log_pk = l.pk AND c.thread_pk = t.pk
WHERE t.resource = :resource AND t.pk <> :thread_pk AND t.last_seq > 0
ORDER BY t.updated_at DESC, t.pk DESC
LIMIT :limit

-- recent_groups --
-- The groups of the logs of the threads that were active last, the newest first, without their texts. `marked` says whether a
-- group has a line that is important or done.
SELECT g.pk, g.handle, l.thread_pk, g.state, g.tokens, g.observations, g.first_seq, g.last_seq, e.position,
  CASE WHEN EXISTS (SELECT 1 FROM observations o WHERE o.group_pk = g.pk AND o.priority IN ('high', 'done') AND o.state = 'active')
    THEN 1 ELSE 0 END AS marked
FROM (SELECT t.pk FROM threads t WHERE t.resource = :resource AND t.pk <> :thread_pk AND t.last_seq > 0
  ORDER BY t.updated_at DESC, t.pk DESC LIMIT :threads) AS newest
JOIN logs l ON l.resource = :resource AND COALESCE(l.thread_pk, 0) = newest.pk
JOIN groups g ON g.log_pk = l.pk AND g.state IN ('active', 'buffered') AND (g.state = 'active' OR g.kind = 'observer')
LEFT JOIN log_entries e ON e.log_pk = l.pk AND e.generation = l.generation AND e.group_pk = g.pk
ORDER BY COALESCE(g.last_at, g.created_at) DESC, g.pk DESC
LIMIT :limit

-- group_texts --
SELECT g.pk, g.text FROM groups g JOIN logs l ON l.pk = g.log_pk WHERE l.resource = :resource AND g.pk IN (:groups[])

-- lines_of_groups --
{select_lines}, g.pk AS group_pk
FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
WHERE l.resource = :resource AND g.pk IN (:groups[])
ORDER BY g.pk, o.ordinal

-- count_other_messages --
-- How many messages the log does not cover: one row for each thread that was read, and one with place 0 for all others together.
SELECT CASE WHEN t.pk IN (:read[]) THEN t.pk ELSE 0 END AS place, COUNT(DISTINCT t.pk) AS threads, COUNT(*) AS messages
FROM threads t LEFT JOIN cursors c ON c.log_pk = :log_pk AND c.thread_pk = t.pk
JOIN messages m ON m.thread_pk = t.pk AND m.seq > COALESCE(c.seq, 0) AND m.state = 'live' AND m.own = 0
WHERE t.resource = :resource AND t.pk <> :thread_pk AND t.last_seq > COALESCE(c.seq, 0)
GROUP BY place

-- select_groups --
-- The columns that group_row in log/snapshot.py reads. Each query adds the position.
SELECT g.pk, g.id, g.handle, g.kind, g.tokens, g.text, g.observations, g.first_at, g.last_at, g.activated_at, g.thread_pk,
  g.first_seq, g.last_seq

-- active_groups --
{select_groups}, e.position
FROM log_entries e JOIN groups g ON g.pk = e.group_pk
WHERE e.log_pk = :log_pk AND e.generation = :generation
ORDER BY e.position

-- newer_groups --
{select_groups}, e.position
FROM log_entries e JOIN groups g ON g.pk = e.group_pk
WHERE e.log_pk = :log_pk AND e.generation = :generation AND e.position > :after
ORDER BY e.position

-- buffered_groups --
SELECT g.pk, g.id, g.kind, t.id AS thread, g.first_seq, g.last_seq, g.handle, r.inputs
FROM groups g
LEFT JOIN threads t ON t.pk = g.thread_pk
LEFT JOIN runs r ON r.pk = g.run_pk
WHERE g.log_pk = :log_pk AND g.state = 'buffered'
  AND (CAST(:only AS BIGINT) IS NULL OR g.thread_pk = :only OR g.thread_pk IS NULL)
ORDER BY g.pk

-- open_runs --
SELECT r.id, r.kind, r.status, t.id AS thread, r.first_seq, r.last_seq, r.lease_until, r.retry_at, r.fence, r.attempt, r.owner,
  r.heartbeat_at, p.beats, p.beat_at
FROM runs r LEFT JOIN threads t ON t.pk = r.thread_pk LEFT JOIN processes p ON p.owner = r.owner
WHERE r.log_pk = :log_pk AND r.status IN ('running', 'failed')
  AND (CAST(:only AS BIGINT) IS NULL OR r.thread_pk = :only OR r.thread_pk IS NULL)
ORDER BY r.pk

-- threads_of_groups --
-- The threads of some groups and, for a reflection, the thread of the log. They are locked before the log.
SELECT DISTINCT COALESCE(g.thread_pk, l.thread_pk) AS thread_pk FROM groups g JOIN logs l ON l.pk = g.log_pk
WHERE g.log_pk = :log_pk AND g.id IN (:groups[]) AND COALESCE(g.thread_pk, l.thread_pk) IS NOT NULL

-- version_is --
-- Checked before locking, so that a caller with an old version does not wait for locks.
SELECT 1 FROM logs WHERE pk = :log_pk AND version = :version AND (CAST(:resource AS TEXT) IS NULL OR resource = :resource)

-- take_version --
-- Compare and swap. No row is returned if the log has changed; then the caller reads it and decides again.
UPDATE logs SET version = version + 1 WHERE pk = :log_pk AND version = :version
RETURNING generation

-- take_version_to_append --
-- The same for a change that only adds groups at the end of the log.
UPDATE logs SET version = version + 1, appends = appends + 1 WHERE pk = :log_pk AND version = :version
RETURNING generation

-- touch_version --
UPDATE logs SET version = version + 1 WHERE pk = :log_pk
RETURNING version, generation

-- ready_groups --
SELECT g.id, g.pk, g.thread_pk, g.first_seq, g.last_seq, g.hints, c.seq AS cursor,
  t.current_task, t.suggested_response, t.hinted_title, t.hinted_at, t.hinted_seq
FROM groups g JOIN cursors c ON c.log_pk = g.log_pk AND c.thread_pk = g.thread_pk JOIN threads t ON t.pk = g.thread_pk
WHERE g.log_pk = :log_pk AND g.id IN (:groups[]) AND g.state = 'buffered'

-- activate_group --
UPDATE groups SET state = 'active', activated_at = :now, text = :text, tokens = :tokens WHERE pk = :group_pk

-- lock_log --
-- Locks the row of the log, so that two transactions do not give out the same alias.
UPDATE logs SET version = version WHERE pk = :log_pk

-- last_position --
SELECT COALESCE(MAX(position), 0) AS position FROM log_entries WHERE log_pk = :log_pk AND generation = :generation

-- add_entry --
INSERT INTO log_entries (log_pk, generation, position, group_pk, added_at)
VALUES (:log_pk, :generation, :position, :group_pk, :now)

-- set_group_hints --
UPDATE groups SET hints = :hints WHERE pk = :group_pk

-- apply_hints --
-- The hints of the group with the last messages are stored, in whatever order groups are activated.
UPDATE threads SET
  current_task = :current_task,
  suggested_response = :suggested_response,
  hinted_title = :title,
  hinted_at = :now,
  hinted_seq = :last_seq
WHERE pk = :thread_pk AND hinted_seq < :last_seq

-- set_generation --
UPDATE logs SET generation = :generation WHERE pk = :log_pk

-- set_group_state --
UPDATE groups SET state = :state WHERE pk = :group_pk

-- activate_reflection_group --
UPDATE groups SET state = 'active', activated_at = :now, text = :text, tokens = :tokens WHERE pk = :group_pk
RETURNING hints

-- apply_reflected_hints --
-- A reflection is about old observations, so its hints are stored only if no later group has hints for the thread.
UPDATE threads SET current_task = :current_task, suggested_response = :suggested_response
WHERE pk = (SELECT l.thread_pk FROM logs l WHERE l.pk = :log_pk) AND hinted_seq = :last_seq

-- apply_shared_hints --
-- The same for one of the threads of a shared log.
UPDATE threads SET current_task = :current_task, suggested_response = :suggested_response
WHERE resource = (SELECT l.resource FROM logs l WHERE l.pk = :log_pk) AND id = :thread AND hinted_seq = :last_seq

-- group_hints --
SELECT hints FROM groups WHERE pk = :group_pk

-- hinted_threads --
-- The threads that some groups are about, the thread with the newest hints first.
SELECT t.id, t.hinted_seq FROM threads t
WHERE t.hinted_seq > 0 AND t.pk IN (SELECT s.thread_pk FROM observation_sources s
  JOIN observations o ON o.pk = s.observation_pk JOIN groups g ON g.pk = o.group_pk
  WHERE g.log_pk = :log_pk AND g.id IN (:groups[]))
ORDER BY t.hinted_at DESC, t.pk DESC
LIMIT :limit

-- select_lines --
SELECT o.id, g.id AS group_id, o.ordinal, o.priority, o.text, o.said_at, o.zone, o.about, o.parent, o.verbatim, o.trust, o.grounded,
  o.category, o.files, o.metadata, o.state, o.tokens

-- group_observations --
{select_lines}
FROM observations o JOIN groups g ON g.pk = o.group_pk
WHERE g.log_pk = :log_pk AND g.id IN (:groups[])
ORDER BY g.pk, o.ordinal

-- lines_about --
-- The observations of a log about one of these days, the latest day first.
{select_lines}
FROM log_entries e
JOIN groups g ON g.pk = e.group_pk
JOIN observations o ON o.group_pk = g.pk AND o.about IS NOT NULL
WHERE e.log_pk = :log_pk AND e.generation = :generation AND e.position <= :entries
  AND o.about >= :since AND o.about < :before AND o.state = 'active'
ORDER BY o.about DESC, o.pk DESC
LIMIT :limit

-- lines_since --
-- The newest observations since a moment that can contain the outcome of a plan: they are done or about a day.
{select_lines}
FROM log_entries e
JOIN groups g ON g.pk = e.group_pk
JOIN observations o ON o.group_pk = g.pk
WHERE e.log_pk = :log_pk AND e.generation = :generation AND e.position <= :entries
  AND COALESCE(g.last_at, :since) >= :since AND COALESCE(o.said_at, :since) >= :since
  AND (o.priority = 'done' OR o.about IS NOT NULL) AND o.state = 'active'
ORDER BY e.position DESC, o.ordinal DESC
LIMIT :limit

-- lines_by_id --
{select_lines}
FROM observations o JOIN groups g ON g.pk = o.group_pk
WHERE g.log_pk = :log_pk AND o.id IN (:ids[])

-- observation_sources --
SELECT o.id AS observation, t.id AS thread, s.first_seq, s.last_seq
FROM observations o
JOIN groups g ON g.pk = o.group_pk
JOIN observation_sources s ON s.observation_pk = o.pk
JOIN threads t ON t.pk = s.thread_pk
WHERE g.log_pk = :log_pk AND g.id IN (:groups[])
ORDER BY o.pk, t.pk, s.first_seq

-- observation_merges --
SELECT o.id AS observation, m.id AS merged
FROM observations o
JOIN groups g ON g.pk = o.group_pk
JOIN observation_merges x ON x.observation_pk = o.pk
JOIN observations m ON m.pk = x.merged_pk
WHERE g.log_pk = :log_pk AND g.id IN (:groups[])
ORDER BY o.pk, m.pk

-- supersede --
UPDATE observations SET state = 'superseded'
WHERE state = 'active' AND pk IN (SELECT x.merged_pk FROM observation_merges x
  JOIN observations o ON o.pk = x.observation_pk WHERE o.group_pk = :group_pk)

-- drop_rest --
-- Observations that no line of the reflection merges. They are not deleted, and `restore` activates them again.
UPDATE observations SET state = 'dropped' WHERE group_pk = :group_pk AND state = 'active'
RETURNING id

-- drop_omitted --
-- Observations that a line of the reflection merges without repeating their details. They count as dropped.
UPDATE observations SET state = 'dropped' WHERE id IN (:ids[]) AND state = 'superseded'
  AND group_pk IN (SELECT g.pk FROM groups g WHERE g.log_pk = :log_pk)
RETURNING id

-- inputs_of_group --
SELECT r.inputs FROM groups g JOIN runs r ON r.pk = g.run_pk WHERE g.pk = :group_pk

-- count_dropped --
SELECT COUNT(*) AS lines FROM groups g JOIN observations o ON o.group_pk = g.pk
WHERE g.log_pk = :log_pk AND g.state = 'covered' AND o.state = 'dropped'

-- revive --
UPDATE observations SET state = 'active' WHERE group_pk = :group_pk AND state IN ('superseded', 'dropped')

-- insert_group --
INSERT INTO groups (id, log_pk, handle, kind, state, thread_pk, first_seq, last_seq, run_pk, tokens, observations, first_at, last_at,
  created_at, hints, text)
VALUES (:id, :log_pk, :handle, :kind, 'buffered', :thread_pk, :first_seq, :last_seq, :run_pk, :tokens, :observations, :first_at,
  :last_at, :now, :hints, :text)
RETURNING pk

-- insert_observations --
INSERT INTO observations (id, group_pk, ordinal, parent, priority, trust, grounded, tokens, said_at, zone, about, category, text,
  verbatim, files, metadata)
VALUES (:id, :group_pk, :ordinal, :parent, :priority, :trust, :grounded, :tokens, :said_at, :zone, :about, :category, :text,
  :verbatim, :files, :metadata)

-- insert_sources --
INSERT INTO observation_sources (observation_pk, thread_pk, first_seq, last_seq)
SELECT o.pk, t.pk, CAST(:first_seq AS BIGINT), CAST(:last_seq AS BIGINT)
FROM observations o, threads t
WHERE o.id = :observation AND t.resource = :resource AND t.id = :thread
ON CONFLICT DO NOTHING

-- insert_merges --
INSERT INTO observation_merges (observation_pk, merged_pk)
SELECT o.pk, m.pk FROM observations o, observations m WHERE o.id = :observation AND m.id = :merged
ON CONFLICT DO NOTHING

-- next_handle --
UPDATE logs SET next_handle = next_handle + :count, version = version + 1, run_changes = run_changes + 1, failures = 0, retry_at = NULL,
  last_success_at = :now
WHERE pk = :log_pk
RETURNING next_handle

-- generations --
SELECT g.number, g.kind, g.created_at, r.id AS run, g.dropped, g.restored_from, g.tokens_before, g.tokens_after,
  g.cause
FROM generations g LEFT JOIN runs r ON r.pk = g.run_pk
WHERE g.log_pk = :log_pk
ORDER BY g.number

-- generation_at --
SELECT MAX(number) AS number FROM generations WHERE log_pk = :log_pk AND created_at <= :at

-- entries_at --
{select_groups}, e.position
FROM log_entries e JOIN groups g ON g.pk = e.group_pk
WHERE e.log_pk = :log_pk AND e.generation = :generation AND e.added_at <= :at
ORDER BY e.position

-- observer_groups --
-- The observer groups that are or were part of the log, in the order of activation.
SELECT g.pk, g.id, g.tokens FROM groups g
WHERE g.log_pk = :log_pk AND g.kind = 'observer' AND g.state IN ('active', 'covered')
ORDER BY g.activated_at, g.pk

-- void_buffered_reflections --
UPDATE groups SET state = 'void' WHERE log_pk = :log_pk AND kind = 'reflection' AND state = 'buffered'

-- abandon_reflections --
UPDATE runs SET status = 'abandoned', finished_at = :now
WHERE log_pk = :log_pk AND kind = 'reflect' AND status IN ('running', 'failed')

-- withdraw --
UPDATE messages SET state = 'withdrawn' WHERE thread_pk = :thread_pk AND turn = :turn AND state = 'live' AND seq > :after
RETURNING seq

-- last_answer --
SELECT COALESCE(MAX(seq), 0) AS seq FROM messages
WHERE thread_pk = :thread_pk AND turn = :turn AND role = 'assistant' AND state = 'live'

-- withdraw_unanswered --
UPDATE messages SET state = 'withdrawn'
WHERE thread_pk = :thread_pk AND seq IN (:seqs[]) AND state = 'live'
  AND NOT EXISTS (SELECT 1 FROM messages a
    WHERE a.thread_pk = :thread_pk AND a.role = 'assistant' AND a.state = 'live' AND a.seq > messages.seq)
RETURNING seq

-- withdraw_unseen --
DELETE FROM unseen WHERE thread_pk = :thread_pk AND turn = :turn

-- abandon_runs_over --
-- The result of an abandoned run is refused, so that it does not contain withdrawn messages.
UPDATE runs SET status = 'abandoned', finished_at = :now
WHERE thread_pk = :thread_pk AND kind = 'observe' AND status IN ('running', 'failed')
  AND first_seq <= :last_seq AND last_seq >= :first_seq
RETURNING id

-- void_groups_over --
UPDATE groups SET state = 'void'
WHERE thread_pk = :thread_pk AND kind = 'observer' AND state = 'buffered' AND first_seq <= :last_seq AND last_seq >= :first_seq
RETURNING id

-- reflections --
SELECT g.pk, g.id, r.inputs FROM groups g JOIN runs r ON r.pk = g.run_pk
WHERE g.log_pk = :log_pk AND g.kind = 'reflection' AND g.state <> 'void'
ORDER BY g.pk

-- void_reflections --
SELECT pk FROM groups WHERE log_pk = :log_pk AND kind = 'reflection' AND state = 'void'

-- set_group_text --
UPDATE groups SET text = :text, tokens = :tokens WHERE pk = :group_pk

-- logs_of_thread --
SELECT l.pk, l.thread_pk FROM cursors c JOIN logs l ON l.pk = c.log_pk WHERE c.thread_pk = :thread_pk
ORDER BY l.pk

-- set_last_request --
UPDATE threads SET last_request_at = :now, last_model = COALESCE(:model, last_model) WHERE pk = :thread_pk AND resource = :resource

-- add_context --
-- No row is returned if the thread was deleted meanwhile.
INSERT INTO contexts (thread_pk, number, turn, step, at, record)
SELECT t.pk, COALESCE((SELECT MAX(c.number) FROM contexts c WHERE c.thread_pk = t.pk), 0) + 1, CAST(:turn AS TEXT),
  CAST(:step AS BIGINT), CAST(:now AS BIGINT), CAST(:record AS TEXT)
FROM threads t WHERE t.pk = :thread_pk AND t.resource = :resource
RETURNING number

-- select_contexts --
SELECT c.number, c.turn, c.step, c.at, c.record FROM contexts c JOIN threads t ON t.pk = c.thread_pk

-- get_context --
{select_contexts}
WHERE t.resource = :resource AND t.id = :thread AND c.number = :number

-- list_contexts --
{select_contexts}
WHERE t.resource = :resource AND t.id = :thread AND c.number > :after
ORDER BY c.number
LIMIT :limit

-- newest_contexts --
{select_contexts}
WHERE t.resource = :resource AND t.id = :thread
ORDER BY c.number DESC
LIMIT :limit

-- contexts_before --
{select_contexts}
WHERE t.resource = :resource AND t.id = :thread AND c.number < :before
ORDER BY c.number DESC
LIMIT :limit

-- tokens_up_to --
SELECT CAST(COALESCE(SUM(m.tokens), 0) AS BIGINT) AS tokens FROM messages m JOIN threads t ON t.pk = m.thread_pk
WHERE t.resource = :resource AND t.id = :thread AND m.seq <= :seq AND m.state = 'live'

-- tokens_between --
SELECT m.seq, m.tokens FROM messages m JOIN threads t ON t.pk = m.thread_pk
WHERE t.resource = :resource AND t.id = :thread AND m.seq > :first AND m.seq <= :last AND m.state = 'live'
ORDER BY m.seq

-- groups_by_id --
{select_groups}, 1 AS position FROM groups g
WHERE g.log_pk = :log_pk AND g.id IN (:groups[])

-- hints_of --
SELECT hints, activated_at FROM groups
WHERE log_pk = :log_pk AND thread_pk = :thread_pk AND last_seq = :last_seq AND kind = 'observer' AND state <> 'void'

-- reflected_hints --
-- The hints of the reflections in a generation of a thread's own log, the newest first.
SELECT g.hints FROM log_entries e
JOIN logs l ON l.pk = e.log_pk
JOIN groups g ON g.pk = e.group_pk
WHERE e.log_pk = :log_pk AND e.generation = :generation AND l.thread_pk = :thread_pk
  AND g.kind = 'reflection' AND g.hints IS NOT NULL
ORDER BY e.position DESC

-- log_of --
SELECT pk FROM logs WHERE pk = :log_pk AND resource = :resource

-- log_state --
-- What shows whether the cached groups of a log are still those of the database.
SELECT pk, id, version, generation, run_changes, appends FROM logs WHERE pk = :log_pk AND resource = :resource

-- shared_aliases --
-- The aliases of threads in a shared log.
SELECT t.id, c.alias FROM cursors c JOIN logs l ON l.pk = c.log_pk JOIN threads t ON t.pk = c.thread_pk
WHERE c.log_pk = :log_pk AND l.thread_pk IS NULL AND t.resource = l.resource AND t.id IN (:threads[]) AND c.alias > 0
