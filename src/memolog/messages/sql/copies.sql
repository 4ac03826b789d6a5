-- take_log_of_thread --
-- Locks the log, so that nothing is activated, reflected or edited in it until the copy is made.
UPDATE logs SET version = version WHERE resource = :resource AND thread_pk = :thread_pk
RETURNING pk, generation, next_handle

-- take_thread_logs --
UPDATE logs SET version = version WHERE resource = :resource AND thread_pk IS NOT NULL

-- groups_of_log --
-- Also the groups that reflections cover, because a copied reflection refers to them.
SELECT g.pk, g.id, g.handle, g.kind, g.state, g.thread_pk, g.first_seq, g.last_seq, g.run_pk, g.tokens, g.observations, g.first_at,
  g.last_at, g.created_at, g.activated_at, g.hints, g.text
FROM groups g WHERE g.log_pk = :log_pk AND g.state IN ('active', 'covered')
ORDER BY g.pk

-- insert_group_copy --
INSERT INTO groups (id, log_pk, handle, kind, state, thread_pk, first_seq, last_seq, run_pk, tokens, observations, first_at, last_at,
  created_at, activated_at, hints, text)
VALUES (:id, :log_pk, :handle, :kind, :state, :thread_pk, :first_seq, :last_seq, :run_pk, :tokens, :observations, :first_at, :last_at,
  :created_at, :activated_at, :hints, :text)
RETURNING pk

-- run_of --
SELECT r.kind, r.thread_pk, r.first_seq, r.last_seq, r.started_at, r.finished_at, r.model, r.prompt_version, r.inputs
FROM runs r WHERE r.pk = :run_pk

-- insert_run_copy --
-- A copied run has no cost, because the ledger has the cost of the original.
INSERT INTO runs (id, log_pk, kind, status, thread_pk, first_seq, last_seq, owner, lease_until, heartbeat_at, started_at, finished_at,
  model, prompt_version, inputs)
VALUES (:id, :log_pk, :kind, 'done', :thread_pk, :first_seq, :last_seq, 'copy', :started_at, :started_at, :started_at, :finished_at,
  :model, :prompt_version, :inputs)
RETURNING pk

-- observations_of_group --
SELECT o.pk, o.ordinal, o.parent, o.priority, o.trust, o.grounded, o.state, o.tokens, o.said_at, o.zone, o.about, o.category, o.text,
  o.verbatim, o.files, o.metadata
FROM observations o WHERE o.group_pk = :group_pk ORDER BY o.ordinal

-- insert_observation_copy --
INSERT INTO observations (id, group_pk, ordinal, parent, priority, trust, grounded, state, tokens, said_at, zone, about, category, text,
  verbatim, files, metadata)
VALUES (:id, :group_pk, :ordinal, :parent, :priority, :trust, :grounded, :state, :tokens, :said_at, :zone, :about, :category, :text,
  :verbatim, :files, :metadata)
RETURNING pk

-- sources_of_group --
SELECT s.observation_pk, s.thread_pk, s.first_seq, s.last_seq
FROM observation_sources s JOIN observations o ON o.pk = s.observation_pk WHERE o.group_pk = :group_pk

-- insert_source_copy --
INSERT INTO observation_sources (observation_pk, thread_pk, first_seq, last_seq)
VALUES (:observation_pk, :thread_pk, :first_seq, :last_seq)

-- merges_of_group --
SELECT x.observation_pk, x.merged_pk
FROM observation_merges x JOIN observations o ON o.pk = x.observation_pk WHERE o.group_pk = :group_pk

-- insert_merge_copy --
INSERT INTO observation_merges (observation_pk, merged_pk) VALUES (:observation_pk, :merged_pk)

-- set_next_handle --
UPDATE logs SET next_handle = :next_handle, version = version + 1 WHERE pk = :log_pk

-- set_cursor --
UPDATE cursors SET seq = :seq WHERE log_pk = :log_pk AND thread_pk = :thread_pk

-- copy_hints --
UPDATE threads SET
  current_task = (SELECT s.current_task FROM threads s WHERE s.pk = :source_pk),
  suggested_response = (SELECT s.suggested_response FROM threads s WHERE s.pk = :source_pk),
  hinted_title = (SELECT s.hinted_title FROM threads s WHERE s.pk = :source_pk),
  hinted_at = (SELECT s.hinted_at FROM threads s WHERE s.pk = :source_pk),
  hinted_seq = (SELECT s.hinted_seq FROM threads s WHERE s.pk = :source_pk)
WHERE pk = :target_pk

-- thread_logs --
-- The threads of a resource whose own log covers messages.
SELECT t.pk, t.id, l.pk AS log_pk, l.generation, c.seq
FROM threads t JOIN logs l ON l.thread_pk = t.pk JOIN cursors c ON c.log_pk = l.pk AND c.thread_pk = t.pk
WHERE t.resource = :resource AND c.seq > 0
ORDER BY t.pk

-- touched_here --
-- Whether a log has observed a thread already. Then the log of the thread is not merged into it.
SELECT COUNT(*) AS groups FROM groups WHERE log_pk = :log_pk AND thread_pk = :thread_pk AND kind = 'observer' AND state <> 'void'

-- running_here --
SELECT COUNT(*) AS runs FROM runs WHERE log_pk = :log_pk AND thread_pk = :thread_pk AND status IN ('running', 'failed')

-- merged_here --
-- Whether the log of the thread was merged into this log before.
SELECT 1 FROM runs WHERE log_pk = :log_pk AND thread_pk = :thread_pk AND owner = 'copy' LIMIT 1

-- handle_of --
SELECT next_handle FROM logs WHERE pk = :log_pk

-- group_by_key --
SELECT g.id, g.text FROM groups g WHERE g.pk = :group_pk
