-- resources --
-- The resources with threads, the latest active first.
SELECT t.resource, COUNT(*) AS threads, CAST(SUM(t.last_seq) AS BIGINT) AS messages, MAX(t.updated_at) AS updated_at
FROM threads t
GROUP BY t.resource
ORDER BY MAX(t.updated_at) DESC, t.resource
LIMIT :limit

-- unobserved --
-- How many threads have messages that the log of the thread, or the shared log of the resource, does not cover.
SELECT COUNT(*) AS threads FROM threads t
WHERE t.last_seq > 0 AND NOT EXISTS (SELECT 1 FROM cursors c WHERE c.thread_pk = t.pk AND c.seq >= t.last_seq)

-- states --
-- The sizes of tails, logs and buffered groups, and the failures. For :shared = 1, the log is that of the resource.
SELECT t.pk, l.failures, l.last_error_at, l.last_error,
  (SELECT CAST(COALESCE(SUM(m.tokens), 0) AS BIGINT) FROM messages m
    WHERE m.thread_pk = t.pk AND m.seq > COALESCE(c.seq, 0) AND m.state = 'live') AS tail_tokens,
  (SELECT CAST(COALESCE(SUM(g.tokens), 0) AS BIGINT) FROM log_entries e JOIN groups g ON g.pk = e.group_pk
    WHERE e.log_pk = l.pk AND e.generation = l.generation) AS log_tokens,
  (SELECT CAST(COALESCE(SUM(m.tokens), 0) AS BIGINT) FROM groups g
    JOIN messages m ON m.thread_pk = g.thread_pk AND m.seq BETWEEN g.first_seq AND g.last_seq AND m.state = 'live'
    WHERE g.log_pk = l.pk AND g.state = 'buffered' AND g.thread_pk = t.pk) AS buffered_tokens,
  (SELECT COUNT(*) FROM runs r WHERE r.log_pk = l.pk AND r.status = 'running') AS running,
  (SELECT COUNT(*) FROM runs r WHERE r.log_pk = l.pk AND r.status = 'failed') AS failed,
  t.last_seq - (SELECT COUNT(*) FROM messages m WHERE m.thread_pk = t.pk AND m.state <> 'live') AS live
FROM threads t
LEFT JOIN logs l ON l.resource = t.resource AND COALESCE(l.thread_pk, 0) = CASE WHEN :shared = 1 THEN 0 ELSE t.pk END
LEFT JOIN cursors c ON c.log_pk = l.pk AND c.thread_pk = t.pk
WHERE t.pk IN (:threads[])

-- usage_by_day --
-- Days are those of UTC, counted from 1970. The index of `usage` begins with the resource, so for the whole database the resources
-- are read one after the other from the index. Some have costs and no threads, such as those that were forgotten.
WITH RECURSIVE known (resource) AS (
  SELECT COALESCE(CAST(:resource AS TEXT), (SELECT MIN(resource) FROM usage))
  UNION ALL
  SELECT (SELECT MIN(u.resource) FROM usage u WHERE u.resource > known.resource) FROM known
  WHERE CAST(:resource AS TEXT) IS NULL AND known.resource IS NOT NULL)
SELECT u.at / 86400000000 AS day, u.kind, COUNT(*) AS requests, CAST(SUM(u.input_tokens) AS BIGINT) AS input_tokens,
  CAST(SUM(u.output_tokens) AS BIGINT) AS output_tokens, CAST(SUM(u.cache_read_tokens) AS BIGINT) AS cache_read_tokens,
  CAST(SUM(u.cache_write_tokens) AS BIGINT) AS cache_write_tokens, CAST(SUM(u.cost) AS BIGINT) AS cost
FROM known JOIN usage u ON u.resource = known.resource AND u.at >= :since
WHERE (CAST(:thread_pk AS BIGINT) IS NULL OR u.thread_pk = :thread_pk)
GROUP BY u.at / 86400000000, u.kind
ORDER BY 1, 2

-- select_lines --
-- The columns that observation_from_row in log/store.py reads, and the position of the group.
SELECT o.pk, o.id, g.id AS group_id, o.ordinal, o.priority, o.text, o.said_at, o.zone, o.about, o.parent, o.verbatim, o.trust,
  o.grounded, o.category, o.files, o.metadata, o.state, o.tokens

-- newest_lines --
-- The newest lines of a generation before a line, in the reverse order of the log.
{select_lines}, e.position
FROM log_entries e JOIN groups g ON g.pk = e.group_pk JOIN observations o ON o.group_pk = g.pk
WHERE e.log_pk = :log_pk AND e.generation = :generation AND e.position <= :position
  AND (e.position < :position OR o.ordinal < :ordinal) AND o.state IN ('active', 'retracted')
ORDER BY e.position DESC, o.ordinal DESC
LIMIT :limit

-- lines_of_messages --
-- The lines of a log with a source among some messages, the latest group first. Lines of void groups never were in a log.
{select_lines}, g.pk AS position
FROM observations o JOIN groups g ON g.pk = o.group_pk
WHERE g.log_pk = :log_pk AND g.state <> 'void' AND o.state <> 'deleted' AND g.pk <= :position
  AND (g.pk < :position OR o.ordinal < :ordinal)
  AND o.pk IN (SELECT s.observation_pk FROM observation_sources s
    WHERE s.thread_pk = :thread_pk AND s.first_seq <= :last AND s.last_seq >= :first)
ORDER BY g.pk DESC, o.ordinal DESC
LIMIT :limit

-- sources --
SELECT o.id AS observation, t.id AS thread, s.first_seq, s.last_seq
FROM observations o JOIN observation_sources s ON s.observation_pk = o.pk JOIN threads t ON t.pk = s.thread_pk
WHERE o.pk IN (:lines[])
ORDER BY o.pk, t.pk, s.first_seq

-- merges --
SELECT o.id AS observation, m.id AS merged
FROM observations o JOIN observation_merges x ON x.observation_pk = o.pk JOIN observations m ON m.pk = x.merged_pk
WHERE o.pk IN (:lines[])
ORDER BY o.pk, m.pk

-- groups --
SELECT g.id, g.handle, g.kind, g.state, g.tokens, g.observations, g.activated_at, g.first_seq, g.last_seq, t.id AS thread, r.id AS run
FROM groups g JOIN logs l ON l.pk = g.log_pk LEFT JOIN threads t ON t.pk = g.thread_pk LEFT JOIN runs r ON r.pk = g.run_pk
WHERE l.resource = :resource AND g.id IN (:groups[])

-- line --
{select_lines}, g.log_pk
FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
WHERE l.resource = :resource AND o.id = :observation AND o.state <> 'deleted'

-- merged_lines --
-- The lines that a line replaces.
{select_lines}
FROM observation_merges x JOIN observations o ON o.pk = x.merged_pk JOIN groups g ON g.pk = o.group_pk
WHERE x.observation_pk = :line AND o.state <> 'deleted'
ORDER BY g.pk, o.ordinal
LIMIT :limit

-- replacing_lines --
-- The lines that replace a line.
{select_lines}
FROM observation_merges x JOIN observations o ON o.pk = x.observation_pk JOIN groups g ON g.pk = o.group_pk
WHERE x.merged_pk = :line AND o.state <> 'deleted' AND g.state <> 'void'
ORDER BY g.pk, o.ordinal
LIMIT :limit

-- dropped --
-- The lines that the reflections of a run dropped, as JSON lists of ids.
SELECT n.number, n.dropped FROM generations n JOIN runs r ON r.pk = n.run_pk JOIN logs l ON l.pk = n.log_pk
WHERE l.resource = :resource AND r.id = :run

-- lines_by_id --
{select_lines}
FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
WHERE l.resource = :resource AND o.id IN (:ids[]) AND o.state <> 'deleted'
ORDER BY g.pk, o.ordinal
