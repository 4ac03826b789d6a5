-- thread_by_id --
SELECT pk, id, last_seq FROM threads WHERE resource = :resource AND id = :thread

-- thread_by_alias --
-- Models refer to a thread by its number in the shared log of the resource.
SELECT t.pk, t.id, t.last_seq
FROM logs l JOIN cursors c ON c.log_pk = l.pk JOIN threads t ON t.pk = c.thread_pk
WHERE l.resource = :resource AND l.thread_pk IS NULL AND c.alias = :alias

-- labels --
-- The number of each thread in the shared log.
SELECT t.pk, c.alias
FROM logs l JOIN cursors c ON c.log_pk = l.pk JOIN threads t ON t.pk = c.thread_pk
WHERE l.resource = :resource AND l.thread_pk IS NULL AND t.pk IN (:threads[])

-- select_groups --
-- Reflections have no thread. The log of a thread has its key in `log_thread`, and the shared log has 0.
SELECT g.pk, g.kind, g.thread_pk, t.id AS thread, g.first_seq, g.last_seq, COALESCE(l.thread_pk, 0) AS log_thread
FROM groups g JOIN logs l ON l.pk = g.log_pk LEFT JOIN threads t ON t.pk = g.thread_pk

-- groups_by_handle --
-- A handle is unique within its log.
{select_groups} WHERE l.resource = :resource AND g.handle = :handle AND g.state <> 'void'

-- group_by_id --
{select_groups} WHERE l.resource = :resource AND g.id = :id AND g.state <> 'void'

-- observation_by_id --
SELECT o.pk
FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
WHERE l.resource = :resource AND o.id = :id AND o.state <> 'deleted' AND g.state <> 'void'

-- observation_by_number --
-- Observations are numbered within their group.
SELECT pk FROM observations WHERE group_pk = :group_pk AND ordinal = :ordinal AND state <> 'deleted'

-- observations_of_group --
SELECT pk FROM observations WHERE group_pk = :group_pk AND state <> 'deleted'

-- sources --
-- The source messages of some observations and of all observations that they merge, over any number of reflections.
WITH RECURSIVE behind (pk) AS (
  SELECT o.pk FROM observations o WHERE o.pk IN (:observations[])
  UNION
  SELECT x.merged_pk FROM observation_merges x JOIN behind b ON b.pk = x.observation_pk
)
SELECT DISTINCT t.pk, t.id, s.first_seq, s.last_seq
FROM behind b
JOIN observations o ON o.pk = b.pk
JOIN observation_sources s ON s.observation_pk = o.pk
JOIN threads t ON t.pk = s.thread_pk
WHERE t.resource = :resource AND o.state <> 'deleted'

-- thread_names --
SELECT id FROM threads WHERE resource = :resource AND pk IN (:threads[]) ORDER BY id

-- message_places --
SELECT t.pk, t.id, t.last_seq, MIN(m.seq) AS seq
FROM threads t JOIN messages m ON m.thread_pk = t.pk
WHERE t.resource = :resource AND m.id = :id AND (CAST(:thread AS TEXT) IS NULL OR t.id = :thread)
GROUP BY t.pk, t.id, t.last_seq
ORDER BY t.pk
