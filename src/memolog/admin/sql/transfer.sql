-- any_of --
-- More than 0 if the resource has a row with which an imported row could conflict.
SELECT (SELECT COUNT(*) FROM (SELECT 1 AS one FROM threads WHERE resource = :resource LIMIT 1) a)
  + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM tasks WHERE resource = :resource LIMIT 1) b)
  + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM task_books WHERE resource = :resource LIMIT 1) c)
  + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM logs WHERE resource = :resource LIMIT 1) d)
  + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM working_memory WHERE resource = :resource LIMIT 1) e)
  + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM usage WHERE resource = :resource LIMIT 1) f)
  + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM calibrations WHERE resource = :resource LIMIT 1) g)
  + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM events WHERE resource = :resource LIMIT 1) h)
  + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM resource_settings WHERE resource = :resource LIMIT 1) i)
  + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM tombstones WHERE resource = :resource LIMIT 1) j)
  + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM items WHERE resource = :resource LIMIT 1) k) AS found

-- count_large --
-- The number of rows whose export takes most of the time.
SELECT (SELECT COUNT(*) FROM messages m JOIN threads t ON t.pk = m.thread_pk WHERE t.resource = :resource)
  + (SELECT COUNT(*) FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
    WHERE l.resource = :resource) AS counted

-- thread_names --
SELECT pk, id FROM threads WHERE resource = :resource AND pk IN (:keys[])

-- thread_keys --
SELECT id, pk FROM threads WHERE resource = :resource AND id IN (:threads[])

-- index_again --
-- The index does not read messages before `indexed_seq` again, so queue each imported message.
INSERT INTO search_queue (kind, source_pk, resource)
SELECT 'message', m.pk, t.resource FROM threads t JOIN messages m ON m.thread_pk = t.pk
WHERE t.resource = :resource AND t.id = :thread AND m.seq BETWEEN :first AND :last AND m.seq <= t.indexed_seq
ON CONFLICT (kind, source_pk) DO NOTHING

-- set_times --
-- An imported thread gets the times of its messages.
UPDATE threads SET created_at = :created_at, updated_at = :updated_at WHERE resource = :resource AND id = :thread

-- task_book_select --
SELECT b.last_handle FROM task_books b

-- task_book_page --
{task_book_select} WHERE b.resource = :resource LIMIT :limit

-- task_book_one --
{task_book_select} WHERE b.resource = :resource

-- task_book_add --
INSERT INTO task_books (resource, last_handle) VALUES (:resource, :last_handle)

-- raise_handle --
-- The handle of an imported task must not be given to a new task.
UPDATE task_books SET last_handle = :last_handle WHERE resource = :resource AND last_handle < :last_handle

-- task_select --
SELECT k.pk, k.id, k.handle, k.status, k.priority, k.type, k.blocked, k.assignee, k.session, k.defer_until, k.due, k.created_at,
  k.updated_at, k.closed_at, k.close_reason, k.level, k.version, k.lease_micros, k.restored_at, k.title, k.summary, k.metadata,
  k.description, k.archive
FROM tasks k

-- task_page --
{task_select} WHERE k.resource = :resource AND k.pk > :a ORDER BY k.pk LIMIT :limit

-- task_one --
{task_select} WHERE k.resource = :resource AND k.id = :id

-- task_add --
INSERT INTO tasks (resource, id, handle, status, priority, type, blocked, assignee, session, defer_until, due, created_at, updated_at,
  closed_at, close_reason, level, version, lease_micros, restored_at, title, summary, metadata, description, archive)
VALUES (:resource, :id, :handle, :status, :priority, :type, :blocked, :assignee, :session, :defer_until, :due, :created_at,
  :updated_at, :closed_at, :close_reason, :level, :version, :lease_micros, :restored_at, :title, :summary, :metadata, :description,
  :archive)

-- task_label_page --
-- All labels of the next tasks. A task without labels returns one row, because an empty page would end the export.
SELECT k.pk, k.id, l.label FROM tasks k LEFT JOIN task_labels l ON l.task_pk = k.pk
WHERE k.pk IN (SELECT n.pk FROM tasks n WHERE n.resource = :resource AND n.pk > :a ORDER BY n.pk LIMIT :limit)
ORDER BY k.pk

-- task_label_one --
SELECT k.pk, k.id, l.label FROM tasks k JOIN task_labels l ON l.task_pk = k.pk
WHERE k.resource = :resource AND k.id = :task AND l.label = :label

-- task_label_add --
INSERT INTO task_labels (task_pk, label) VALUES ((SELECT pk FROM tasks WHERE resource = :resource AND id = :task), :label)

-- task_link_select --
SELECT x.source_pk, x.target_pk, CASE x.kind WHEN 'blocks' THEN 1 WHEN 'parent-child' THEN 2 WHEN 'related' THEN 3 ELSE 4 END,
  s.id, t.id, x.kind, x.created_at
FROM task_links x JOIN tasks s ON s.pk = x.source_pk JOIN tasks t ON t.pk = x.target_pk

-- task_link_page --
{task_link_select}
WHERE s.resource = :resource AND (x.source_pk > :a OR (x.source_pk = :a AND (x.target_pk > :b OR (x.target_pk = :b AND
  CASE x.kind WHEN 'blocks' THEN 1 WHEN 'parent-child' THEN 2 WHEN 'related' THEN 3 ELSE 4 END > :c))))
ORDER BY 1, 2, 3 LIMIT :limit

-- task_link_one --
{task_link_select} WHERE s.resource = :resource AND s.id = :source AND t.id = :target AND x.kind = :of

-- task_link_add --
INSERT INTO task_links (source_pk, target_pk, kind, created_at)
VALUES ((SELECT pk FROM tasks WHERE resource = :resource AND id = :source),
  (SELECT pk FROM tasks WHERE resource = :resource AND id = :target), :of, :created_at)

-- task_change_page --
SELECT c.pk, k.id, c.at, c.who, c.change FROM task_changes c JOIN tasks k ON k.pk = c.task_pk
WHERE k.resource = :resource AND c.pk > :a ORDER BY c.pk LIMIT :limit

-- task_change_add --
INSERT INTO task_changes (task_pk, at, who, change)
VALUES ((SELECT pk FROM tasks WHERE resource = :resource AND id = :task), :at, :who, :change)

-- thread_select --
SELECT t.pk, t.id, t.last_seq, t.created_at, t.updated_at, t.last_request_at, t.last_model, k.id, t.active_session, t.hinted_at,
  t.hinted_seq, t.cloned_from, t.title, t.current_task, t.suggested_response, t.hinted_title, t.overrides, t.metadata
FROM threads t LEFT JOIN tasks k ON k.pk = t.active_task_pk

-- thread_page --
{thread_select} WHERE t.resource = :resource AND t.pk > :a ORDER BY t.pk LIMIT :limit

-- thread_one --
{thread_select} WHERE t.resource = :resource AND t.id = :id

-- thread_add --
INSERT INTO threads (resource, id, last_seq, created_at, updated_at, waits_since, last_request_at, last_model, active_task_pk, active_session,
  hinted_at, hinted_seq, cloned_from, title, current_task, suggested_response, hinted_title, overrides, metadata)
VALUES (:resource, :id, :last_seq, :created_at, :updated_at, :updated_at, :last_request_at, :last_model,
  (SELECT pk FROM tasks WHERE resource = :resource AND id = :active_task), :active_session, :hinted_at, :hinted_seq, :cloned_from,
  :title, :current_task, :suggested_response, :hinted_title, :overrides, :metadata)

-- compaction_select --
SELECT c.pk, c.id, t.id, c.first_seq, c.last_seq, c.level, c.created_at, c.restored_at, c.summary, c.before
FROM compactions c JOIN threads t ON t.pk = c.thread_pk

-- compaction_page --
{compaction_select} WHERE t.resource = :resource AND c.pk > :a ORDER BY c.pk LIMIT :limit

-- compaction_one --
{compaction_select} WHERE t.resource = :resource AND c.id = :id

-- compaction_add --
INSERT INTO compactions (id, thread_pk, first_seq, last_seq, level, created_at, restored_at, summary, before)
VALUES (:id, (SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :first_seq, :last_seq, :level, :created_at,
  :restored_at, :summary, :before)

-- branch_select --
SELECT b.pk, t.id, b.number, b.kept_to, b.created_at, b.restored_at, b.live
FROM threads t JOIN branches b ON b.thread_pk = t.pk

-- branch_page --
{branch_select} WHERE t.resource = :resource AND b.pk > :a ORDER BY b.pk LIMIT :limit

-- branch_one --
{branch_select} WHERE t.resource = :resource AND t.id = :thread AND b.number = :number

-- branch_add --
INSERT INTO branches (thread_pk, number, kept_to, created_at, restored_at, live)
VALUES ((SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :number, :kept_to, :created_at, :restored_at, :live)

-- message_select --
SELECT m.thread_pk, m.seq, t.id, m.seq, m.id, m.continuation, m.role, m.tokens, m.created_at, m.state, m.own, m.level, m.pruned, k.id,
  c.id, m.turn, m.zone, m.speaker, m.pairs, m.metadata, m.parts, m.injection, m.search, m.file_tokens,
  m.reported_file_tokens
FROM threads t JOIN messages m ON m.thread_pk = t.pk LEFT JOIN tasks k ON k.pk = m.task_pk
  LEFT JOIN compactions c ON c.pk = m.compaction_pk

-- message_page --
{message_select}
WHERE t.resource = :resource AND m.thread_pk >= :a AND (m.thread_pk > :a OR m.seq > :b)
ORDER BY m.thread_pk, m.seq LIMIT :limit

-- message_one --
{message_select} WHERE t.resource = :resource AND t.id = :thread AND m.seq = :seq

-- message_add --
INSERT INTO messages (thread_pk, seq, id, continuation, role, tokens, created_at, state, own, level, pruned, task_pk, compaction_pk,
  turn, zone, speaker, pairs, metadata, parts, injection, search, file_tokens, reported_file_tokens)
VALUES ((SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :seq, :id, :continuation, :role, :tokens, :created_at,
  :state, :own, :level, :pruned, (SELECT pk FROM tasks WHERE resource = :resource AND id = :task),
  (SELECT pk FROM compactions WHERE id = :compaction), :turn, :zone, :speaker, :pairs, :metadata, :parts, :injection, :search,
  :file_tokens, :reported_file_tokens)

-- task_message_select --
SELECT x.task_pk, x.thread_pk, x.seq, CASE x.kind WHEN 'output' THEN 1 WHEN 'reference' THEN 2 ELSE 3 END, k.id, t.id, x.seq, x.kind
FROM task_messages x JOIN tasks k ON k.pk = x.task_pk JOIN threads t ON t.pk = x.thread_pk

-- task_message_page --
{task_message_select}
WHERE k.resource = :resource AND (x.task_pk > :a OR (x.task_pk = :a AND (x.thread_pk > :b OR (x.thread_pk = :b AND (x.seq > :c
  OR (x.seq = :c AND CASE x.kind WHEN 'output' THEN 1 WHEN 'reference' THEN 2 ELSE 3 END > :d))))))
ORDER BY 1, 2, 3, 4 LIMIT :limit

-- task_message_one --
{task_message_select} WHERE k.resource = :resource AND k.id = :task AND t.id = :thread AND x.seq = :seq AND x.kind = :of

-- task_message_add --
INSERT INTO task_messages (task_pk, thread_pk, seq, kind)
VALUES ((SELECT pk FROM tasks WHERE resource = :resource AND id = :task),
  (SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :seq, :of)

-- log_select --
SELECT l.pk, l.id, t.id, l.version, l.generation, l.next_handle, l.next_alias, l.created_at, l.failures, l.retry_at, l.last_success_at,
  l.last_error_at, l.last_error, l.metadata
FROM logs l LEFT JOIN threads t ON t.pk = l.thread_pk

-- log_page --
{log_select} WHERE l.resource = :resource AND l.pk > :a ORDER BY l.pk LIMIT :limit

-- log_one --
{log_select} WHERE l.resource = :resource AND l.id = :id

-- log_add --
INSERT INTO logs (id, resource, thread_pk, version, generation, next_handle, next_alias, created_at, failures, retry_at,
  last_success_at, last_error_at, last_error, metadata)
VALUES (:id, :resource, (SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :version, :generation, :next_handle,
  :next_alias, :created_at, :failures, :retry_at, :last_success_at, :last_error_at, :last_error, :metadata)

-- cursor_select --
SELECT c.log_pk, c.thread_pk, l.id, t.id, c.seq, c.alias
FROM cursors c JOIN logs l ON l.pk = c.log_pk JOIN threads t ON t.pk = c.thread_pk

-- cursor_page --
{cursor_select} WHERE l.resource = :resource AND (c.log_pk > :a OR (c.log_pk = :a AND c.thread_pk > :b)) ORDER BY 1, 2 LIMIT :limit

-- cursor_one --
{cursor_select} WHERE l.resource = :resource AND l.id = :log AND t.id = :thread

-- cursor_add --
INSERT INTO cursors (log_pk, thread_pk, seq, alias)
VALUES ((SELECT pk FROM logs WHERE resource = :resource AND id = :log),
  (SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :seq, :alias)

-- run_select --
SELECT r.pk, r.id, l.id, r.kind, r.status, t.id, r.first_seq, r.last_seq, r.owner, r.fence, r.lease_until, r.heartbeat_at, r.attempt,
  r.started_at, r.finished_at, r.retry_at, r.model, r.prompt_version, r.input_tokens, r.output_tokens, r.cost, r.error, r.inputs
FROM runs r JOIN logs l ON l.pk = r.log_pk LEFT JOIN threads t ON t.pk = r.thread_pk

-- run_page --
{run_select} WHERE l.resource = :resource AND r.pk > :a ORDER BY r.pk LIMIT :limit

-- run_one --
{run_select} WHERE l.resource = :resource AND r.id = :id

-- run_add --
INSERT INTO runs (id, log_pk, kind, status, thread_pk, first_seq, last_seq, owner, fence, lease_until, heartbeat_at, attempt, started_at,
  finished_at, retry_at, model, prompt_version, input_tokens, output_tokens, cost, error, inputs)
VALUES (:id, (SELECT pk FROM logs WHERE resource = :resource AND id = :log), :of, :status,
  (SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :first_seq, :last_seq, :owner, :fence, :lease_until,
  :heartbeat_at, :attempt, :started_at, :finished_at, :retry_at, :model, :prompt_version, :input_tokens, :output_tokens, :cost, :error,
  :inputs)

-- run_prompt_select --
SELECT p.run_pk, p.call, r.id, p.call, p.prompt, p.reply
FROM run_prompts p JOIN runs r ON r.pk = p.run_pk JOIN logs l ON l.pk = r.log_pk

-- run_prompt_page --
{run_prompt_select} WHERE l.resource = :resource AND (p.run_pk > :a OR (p.run_pk = :a AND p.call > :b)) ORDER BY 1, 2 LIMIT :limit

-- run_prompt_one --
{run_prompt_select} WHERE l.resource = :resource AND r.id = :run AND p.call = :call

-- run_prompt_add --
INSERT INTO run_prompts (run_pk, call, prompt, reply) VALUES ((SELECT pk FROM runs WHERE id = :run), :call, :prompt, :reply)

-- group_select --
SELECT g.pk, g.id, l.id, g.handle, g.kind, g.state, t.id, g.first_seq, g.last_seq, r.id, g.tokens, g.observations, g.first_at, g.last_at,
  g.created_at, g.activated_at, g.hints, g.text
FROM groups g JOIN logs l ON l.pk = g.log_pk LEFT JOIN threads t ON t.pk = g.thread_pk LEFT JOIN runs r ON r.pk = g.run_pk

-- group_page --
{group_select} WHERE l.resource = :resource AND g.pk > :a ORDER BY g.pk LIMIT :limit

-- group_one --
{group_select} WHERE l.resource = :resource AND g.id = :id

-- group_add --
INSERT INTO groups (id, log_pk, handle, kind, state, thread_pk, first_seq, last_seq, run_pk, tokens, observations, first_at, last_at,
  created_at, activated_at, hints, text)
VALUES (:id, (SELECT pk FROM logs WHERE resource = :resource AND id = :log), :handle, :of, :state,
  (SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :first_seq, :last_seq, (SELECT pk FROM runs WHERE id = :run),
  :tokens, :observations, :first_at, :last_at, :created_at, :activated_at, :hints, :text)

-- generation_select --
SELECT g.log_pk, g.number, l.id, g.number, g.kind, r.id, g.created_at, g.restored_from, g.tokens_before, g.tokens_after, g.dropped,
  g.working_memory, g.cause
FROM generations g JOIN logs l ON l.pk = g.log_pk LEFT JOIN runs r ON r.pk = g.run_pk

-- generation_page --
{generation_select} WHERE l.resource = :resource AND (g.log_pk > :a OR (g.log_pk = :a AND g.number > :b)) ORDER BY 1, 2 LIMIT :limit

-- generation_one --
{generation_select} WHERE l.resource = :resource AND l.id = :log AND g.number = :number

-- generation_add --
INSERT INTO generations (log_pk, number, kind, run_pk, created_at, restored_from, tokens_before, tokens_after, dropped, working_memory,
  cause)
VALUES ((SELECT pk FROM logs WHERE resource = :resource AND id = :log), :number, :of, (SELECT pk FROM runs WHERE id = :run),
  :created_at, :restored_from, :tokens_before, :tokens_after, :dropped, :working_memory, :cause)

-- entry_select --
SELECT e.log_pk, e.generation, e.position, l.id, e.generation, e.position, g.id, e.added_at
FROM log_entries e JOIN logs l ON l.pk = e.log_pk JOIN groups g ON g.pk = e.group_pk

-- entry_page --
{entry_select}
WHERE l.resource = :resource AND (e.log_pk > :a OR (e.log_pk = :a AND (e.generation > :b OR (e.generation = :b AND e.position > :c))))
ORDER BY 1, 2, 3 LIMIT :limit

-- entry_one --
{entry_select} WHERE l.resource = :resource AND l.id = :log AND e.generation = :generation AND e.position = :position

-- entry_add --
INSERT INTO log_entries (log_pk, generation, position, group_pk, added_at)
VALUES ((SELECT pk FROM logs WHERE resource = :resource AND id = :log), :generation, :position,
  (SELECT pk FROM groups WHERE id = :group), :added_at)

-- observation_select --
SELECT o.pk, o.id, g.id, o.ordinal, o.parent, o.priority, o.trust, o.grounded, o.state, o.tokens, o.said_at, o.zone, o.about, o.category,
  o.text, o.verbatim, o.files, o.metadata
FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk

-- observation_page --
{observation_select} WHERE l.resource = :resource AND o.pk > :a ORDER BY o.pk LIMIT :limit

-- observation_one --
{observation_select} WHERE l.resource = :resource AND o.id = :id

-- observation_add --
INSERT INTO observations (id, group_pk, ordinal, parent, priority, trust, grounded, state, tokens, said_at, zone, about, category, text,
  verbatim, files, metadata)
VALUES (:id, (SELECT pk FROM groups WHERE id = :group), :ordinal, :parent, :priority, :trust, :grounded, :state, :tokens, :said_at,
  :zone, :about, :category, :text, :verbatim, :files, :metadata)

-- source_select --
SELECT s.observation_pk, s.thread_pk, s.first_seq, o.id, t.id, s.first_seq, s.last_seq
FROM observation_sources s JOIN observations o ON o.pk = s.observation_pk JOIN threads t ON t.pk = s.thread_pk
  JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk

-- source_page --
{source_select}
WHERE l.resource = :resource AND (s.observation_pk > :a OR (s.observation_pk = :a AND (s.thread_pk > :b
  OR (s.thread_pk = :b AND s.first_seq > :c))))
ORDER BY 1, 2, 3 LIMIT :limit

-- source_one --
{source_select} WHERE l.resource = :resource AND o.id = :observation AND t.id = :thread AND s.first_seq = :first_seq

-- source_add --
INSERT INTO observation_sources (observation_pk, thread_pk, first_seq, last_seq)
VALUES ((SELECT pk FROM observations WHERE id = :observation),
  (SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :first_seq, :last_seq)

-- merge_select --
SELECT x.observation_pk, x.merged_pk, o.id, n.id
FROM observation_merges x JOIN observations o ON o.pk = x.observation_pk JOIN observations n ON n.pk = x.merged_pk
  JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk

-- merge_page --
{merge_select}
WHERE l.resource = :resource AND (x.observation_pk > :a OR (x.observation_pk = :a AND x.merged_pk > :b)) ORDER BY 1, 2 LIMIT :limit

-- merge_one --
{merge_select} WHERE l.resource = :resource AND o.id = :observation AND n.id = :merged

-- merge_add --
INSERT INTO observation_merges (observation_pk, merged_pk)
VALUES ((SELECT pk FROM observations WHERE id = :observation), (SELECT pk FROM observations WHERE id = :merged))

-- working_memory_select --
SELECT d.pk, t.id, d.format, d.version, d.schema FROM working_memory d LEFT JOIN threads t ON t.pk = d.thread_pk

-- working_memory_page --
{working_memory_select} WHERE d.resource = :resource AND d.pk > :a ORDER BY d.pk LIMIT :limit

-- working_memory_one --
{working_memory_select} WHERE d.resource = :resource AND COALESCE(t.id, '') = COALESCE(:thread, '')

-- working_memory_add --
INSERT INTO working_memory (resource, thread_pk, format, version, schema)
VALUES (:resource, (SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :format, :version, :schema)

-- working_memory_version_select --
SELECT v.document_pk, v.version, t.id, v.version, v.at, v.who, v.text
FROM working_memory_versions v JOIN working_memory d ON d.pk = v.document_pk LEFT JOIN threads t ON t.pk = d.thread_pk

-- working_memory_version_page --
{working_memory_version_select}
WHERE d.resource = :resource AND (v.document_pk > :a OR (v.document_pk = :a AND v.version > :b)) ORDER BY 1, 2 LIMIT :limit

-- working_memory_version_one --
{working_memory_version_select} WHERE d.resource = :resource AND COALESCE(t.id, '') = COALESCE(:thread, '') AND v.version = :version

-- working_memory_version_add --
INSERT INTO working_memory_versions (document_pk, version, at, who, text)
VALUES ((SELECT d.pk FROM working_memory d LEFT JOIN threads t ON t.pk = d.thread_pk
    WHERE d.resource = :resource AND COALESCE(t.id, '') = COALESCE(:thread, '')),
  :version, :at, :who, :text)

-- usage_page --
SELECT u.pk, t.id, k.id, u.run, u.kind, u.model, u.at, u.input_tokens, u.output_tokens, u.cache_read_tokens, u.cache_write_tokens, u.cost
FROM usage u LEFT JOIN threads t ON t.pk = u.thread_pk LEFT JOIN tasks k ON k.pk = u.task_pk
WHERE u.resource = :resource AND u.pk > :a ORDER BY u.pk LIMIT :limit

-- usage_add --
INSERT INTO usage (resource, thread_pk, task_pk, run, kind, model, at, input_tokens, output_tokens, cache_read_tokens,
  cache_write_tokens, cost)
VALUES (:resource, (SELECT pk FROM threads WHERE resource = :resource AND id = :thread),
  (SELECT pk FROM tasks WHERE resource = :resource AND id = :task), :run, :of, :model, :at, :input_tokens, :output_tokens,
  :cache_read_tokens, :cache_write_tokens, :cost)

-- calibration_select --
SELECT c.model, c.factor, c.samples FROM calibrations c

-- calibration_page --
-- A resource has one row per model, so one page is enough.
{calibration_select} WHERE c.resource = :resource LIMIT :limit

-- calibration_one --
{calibration_select} WHERE c.resource = :resource AND c.model = :model

-- calibration_add --
INSERT INTO calibrations (resource, model, factor, samples) VALUES (:resource, :model, :factor, :samples)

-- setting_select --
SELECT s.name, s.value FROM resource_settings s

-- setting_page --
-- A resource has one row per stored setting, so one page is enough.
{setting_select} WHERE s.resource = :resource LIMIT :limit

-- setting_one --
{setting_select} WHERE s.resource = :resource AND s.name = :name

-- setting_add --
INSERT INTO resource_settings (resource, name, value) VALUES (:resource, :name, :value)

-- item_select --
SELECT x.pk, x.namespace, x.key, x.value, x.created_at, x.updated_at FROM items x

-- item_page --
{item_select} WHERE x.resource = :resource AND x.pk > :a ORDER BY x.pk LIMIT :limit

-- item_one --
{item_select} WHERE x.resource = :resource AND x.namespace = :namespace AND x.key = :key

-- item_add --
INSERT INTO items (resource, namespace, key, value, created_at, updated_at)
VALUES (:resource, :namespace, :key, :value, :created_at, :updated_at)

-- extract_page --
SELECT x.pk, t.id, x.first_seq, x.last_seq, x.at, x.key, x.who, x.run, x.value FROM extracts x JOIN threads t ON t.pk = x.thread_pk
WHERE t.resource = :resource AND x.pk > :a ORDER BY x.pk LIMIT :limit

-- extract_add --
INSERT INTO extracts (thread_pk, first_seq, last_seq, at, key, who, run, value)
VALUES ((SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :first_seq, :last_seq, :at, :key, :who, :run, :value)

-- context_select --
SELECT c.thread_pk, c.number, t.id, c.number, c.turn, c.step, c.at, c.record FROM contexts c JOIN threads t ON t.pk = c.thread_pk

-- context_page --
{context_select} WHERE t.resource = :resource AND (c.thread_pk > :a OR (c.thread_pk = :a AND c.number > :b)) ORDER BY 1, 2 LIMIT :limit

-- context_one --
{context_select} WHERE t.resource = :resource AND t.id = :thread AND c.number = :number

-- context_add --
INSERT INTO contexts (thread_pk, number, turn, step, at, record)
VALUES ((SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :number, :turn, :step, :at, :record)

-- event_page --
SELECT e.pk, t.id, e.at, e.kind, e.data FROM events e LEFT JOIN threads t ON t.pk = e.thread_pk
WHERE e.resource = :resource AND e.pk > :a ORDER BY e.pk LIMIT :limit

-- event_add --
INSERT INTO events (resource, thread_pk, at, kind, data)
VALUES (:resource, (SELECT pk FROM threads WHERE resource = :resource AND id = :thread), :at, :of, :data)

-- tombstone_select --
SELECT b.pk, b.kind, b.value, b.said_at, b.forgotten_at FROM tombstones b

-- tombstone_page --
{tombstone_select} WHERE b.resource = :resource AND b.pk > :a ORDER BY b.pk LIMIT :limit

-- tombstone_one --
{tombstone_select} WHERE b.resource = :resource AND b.kind = :of AND b.value = :value AND b.said_at = :said_at

-- tombstone_add --
INSERT INTO tombstones (resource, kind, value, said_at, forgotten_at) VALUES (:resource, :of, :value, :said_at, :forgotten_at)

-- groups_named --
SELECT g.log_pk, g.id FROM groups g JOIN logs l ON l.pk = g.log_pk WHERE l.resource = :resource AND g.id IN (:names[]) ORDER BY g.pk

-- trust_of_sources --
-- `best` is 3 if a source message is from a user, else 2 if one is from a model, else 1 for tools. It is NULL without sources.
SELECT o.pk, o.trust, MAX(CASE WHEN m.pk IS NULL THEN NULL
  WHEN m.pairs IS NOT NULL AND m.pairs NOT LIKE '%,[]]' THEN 1
  WHEN m.role = 'user' THEN 3 WHEN m.role IN ('assistant', 'system') THEN 2 ELSE 1 END) AS best
FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
LEFT JOIN observation_sources s ON s.observation_pk = o.pk
LEFT JOIN messages m ON m.thread_pk = s.thread_pk AND m.seq >= s.first_seq AND m.seq <= s.last_seq
WHERE l.resource = :resource AND g.id IN (:names[]) AND o.trust <> 'tool'
GROUP BY o.pk, o.trust

-- set_trust --
UPDATE observations SET trust = :trust WHERE pk = :key
