-- find_line --
SELECT o.pk, o.id, o.state, o.group_pk, g.id AS group_id, g.log_pk, g.state AS group_state FROM observations o
JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
WHERE l.resource = :resource AND o.id = :observation

-- citing --
-- The observations and reflected lines with a source in a range of messages.
SELECT DISTINCT o.pk, o.id, o.state, o.group_pk, g.id AS group_id, g.log_pk, g.kind, g.state AS group_state, g.first_seq
FROM observation_sources s
JOIN observations o ON o.pk = s.observation_pk JOIN groups g ON g.pk = o.group_pk
WHERE s.thread_pk = :thread_pk AND s.first_seq <= :last_seq AND s.last_seq >= :first_seq AND o.state <> 'deleted'
ORDER BY g.log_pk, o.pk

-- mergers --
-- The reflected lines that merge some observations.
SELECT DISTINCT o.pk, o.id, o.state, o.group_pk, o.ordinal FROM observation_merges x
JOIN observations o ON o.pk = x.observation_pk
WHERE x.merged_pk IN (:pks[])

-- states --
SELECT o.pk, o.id, o.state, o.group_pk, o.ordinal FROM observations o WHERE o.pk IN (:pks[])

-- merged_of --
SELECT m.pk, m.state FROM observation_merges x JOIN observations m ON m.pk = x.merged_pk
WHERE x.observation_pk = :observation_pk
ORDER BY m.group_pk, m.ordinal

-- stood_for --
-- The observations that the lines of a group merge. Retracted and deleted lines are ignored.
SELECT x.merged_pk FROM observation_merges x JOIN observations o ON o.pk = x.observation_pk
WHERE o.group_pk = :group_pk AND o.state NOT IN ('retracted', 'deleted')

-- erase --
UPDATE observations SET state = 'deleted', text = '', verbatim = NULL, files = '[]', metadata = '{}', category = NULL, about = NULL
WHERE pk IN (:pks[])

-- set_state --
UPDATE observations SET state = :state WHERE pk IN (:pks[])

-- copy_line --
-- A copy of an observation as the last line of a group.
INSERT INTO observations (id, group_pk, ordinal, priority, trust, grounded, state, tokens, said_at, zone, about, category, text,
  verbatim, files, metadata)
SELECT CAST(:id AS TEXT), CAST(:group_pk AS BIGINT),
  (SELECT COALESCE(MAX(x.ordinal), 0) + 1 FROM observations x WHERE x.group_pk = :group_pk),
  o.priority, o.trust, o.grounded, CAST(:state AS TEXT), o.tokens, o.said_at, o.zone, o.about, o.category, o.text, o.verbatim,
  o.files, o.metadata
FROM observations o WHERE o.pk = :source_pk
RETURNING pk

-- copy_sources --
INSERT INTO observation_sources (observation_pk, thread_pk, first_seq, last_seq)
SELECT CAST(:observation_pk AS BIGINT), s.thread_pk, s.first_seq, s.last_seq FROM observation_sources s
WHERE s.observation_pk = :source_pk

-- add_merge --
INSERT INTO observation_merges (observation_pk, merged_pk) VALUES (:observation_pk, :merged_pk)

-- count_lines --
UPDATE groups SET observations = (SELECT COUNT(*) FROM observations o WHERE o.group_pk = groups.pk) WHERE pk = :group_pk

-- groups_of_lines --
SELECT DISTINCT g.pk, g.id, g.state, g.kind, g.handle FROM groups g JOIN observations o ON o.group_pk = g.pk
WHERE o.pk IN (:pks[])
ORDER BY g.pk

-- erase_void_reflections --
UPDATE observations SET state = 'deleted', text = '', verbatim = NULL, files = '[]', metadata = '{}', category = NULL, about = NULL
WHERE state <> 'deleted'
  AND group_pk IN (SELECT g.pk FROM groups g WHERE g.log_pk = :log_pk AND g.kind = 'reflection' AND g.state = 'void')

-- rewrite_line --
UPDATE observations SET text = :text, priority = :priority, tokens = :tokens, metadata = :metadata, verbatim = NULL
WHERE pk = :observation_pk

-- reflections_over --
-- The reflections that are or were part of the log, the newest last. `inputs` has the groups that a reflection covers.
SELECT g.pk, g.id, g.state, r.inputs FROM groups g JOIN runs r ON r.pk = g.run_pk
WHERE g.log_pk = :log_pk AND g.kind = 'reflection' AND g.state IN ('active', 'covered')
ORDER BY g.pk

-- groups_of_thread --
SELECT pk, id FROM groups WHERE log_pk = :log_pk AND thread_pk = :thread_pk ORDER BY pk

-- set_inputs --
UPDATE runs SET inputs = :inputs WHERE pk = (SELECT g.run_pk FROM groups g WHERE g.pk = :group_pk)
