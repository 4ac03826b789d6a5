-- live_seqs --
SELECT seq FROM messages WHERE thread_pk = :thread_pk AND state = 'live' ORDER BY seq

-- last_row_of --
SELECT MAX(seq) AS seq FROM messages WHERE thread_pk = :thread_pk AND id = :id AND state = 'live'

-- withdraw_after --
UPDATE messages SET state = 'withdrawn' WHERE thread_pk = :thread_pk AND state = 'live' AND seq > :after

-- turns_after --
SELECT DISTINCT turn FROM messages WHERE thread_pk = :thread_pk AND state = 'live' AND seq > :after

-- unseen_after --
SELECT 1 FROM unseen WHERE thread_pk = :thread_pk AND first_seq > :after LIMIT 1

-- clear_unseen_after --
DELETE FROM unseen WHERE thread_pk = :thread_pk AND first_seq > :after

-- add_branch --
INSERT INTO branches (thread_pk, number, kept_to, created_at, live)
SELECT t.pk, COALESCE((SELECT MAX(b.number) FROM branches b WHERE b.thread_pk = t.pk), 0) + 1, CAST(:kept_to AS BIGINT),
  CAST(:now AS BIGINT), CAST(:live AS TEXT)
FROM threads t WHERE t.pk = :thread_pk
RETURNING number, kept_to, created_at

-- branches --
SELECT b.pk, b.number, b.kept_to, b.created_at, b.live FROM branches b JOIN threads t ON t.pk = b.thread_pk
WHERE t.resource = :resource AND t.id = :thread AND b.restored_at IS NULL
ORDER BY b.number

-- all_branches --
-- Also the branches that were restored, because their old rows stay withdrawn.
SELECT b.kept_to, b.live FROM branches b JOIN threads t ON t.pk = b.thread_pk
WHERE t.resource = :resource AND t.id = :thread AND b.kept_to < :last

-- mark_restored --
UPDATE branches SET restored_at = :now WHERE pk = :branch_pk

-- cited --
-- The sources of the observations of a group, up to a sequence number.
SELECT o.pk, s.first_seq, s.last_seq FROM observations o JOIN observation_sources s ON s.observation_pk = o.pk
WHERE o.group_pk = :group_pk AND s.first_seq <= :up_to AND o.state <> 'deleted'

-- last_ordinal --
SELECT COALESCE(MAX(ordinal), 0) AS ordinal FROM observations WHERE group_pk = :group_pk

-- clear_hints_after --
UPDATE threads SET current_task = NULL, suggested_response = NULL, hinted_title = NULL, hinted_at = NULL, hinted_seq = 0
WHERE pk = :thread_pk AND hinted_seq > :after
RETURNING pk

-- hints_before --
SELECT hints, last_seq FROM groups
WHERE thread_pk = :thread_pk AND kind = 'observer' AND state IN ('active', 'covered') AND last_seq <= :after AND hints IS NOT NULL
ORDER BY last_seq DESC
LIMIT 1

-- copy_task --
UPDATE messages SET task_pk = (SELECT o.task_pk FROM messages o WHERE o.thread_pk = messages.thread_pk AND o.seq = :old)
WHERE thread_pk = :thread_pk AND seq = :new

-- copy_task_links --
INSERT INTO task_messages (task_pk, thread_pk, seq, kind)
SELECT x.task_pk, x.thread_pk, CAST(:new AS BIGINT), x.kind FROM task_messages x WHERE x.thread_pk = :thread_pk AND x.seq = :old
