-- sequences --
-- Each check returns the wrong rows: a key for the repair, a place for the report, and values for the explanation.
SELECT t.pk AS key, 'thread ' || t.id || ' of ' || t.resource AS place, t.last_seq, COUNT(m.pk) AS messages, COALESCE(MAX(m.seq), 0) AS newest
FROM threads t LEFT JOIN messages m ON m.thread_pk = t.pk
WHERE CAST(:resource AS TEXT) IS NULL OR t.resource = :resource
GROUP BY t.pk, t.id, t.resource, t.last_seq
HAVING t.last_seq <> COUNT(m.pk) OR t.last_seq <> COALESCE(MAX(m.seq), 0)

-- fix_sequence --
-- Only if no message is missing: the number of rows is the number of the last message.
UPDATE threads SET last_seq = (SELECT COALESCE(MAX(m.seq), 0) FROM messages m WHERE m.thread_pk = threads.pk),
  waits_since = COALESCE(waits_since, updated_at)
WHERE pk = :key
  AND (SELECT COUNT(*) FROM messages m WHERE m.thread_pk = threads.pk)
    = (SELECT COALESCE(MAX(m.seq), 0) FROM messages m WHERE m.thread_pk = threads.pk)

-- tombstones --
SELECT m.pk AS key, 'message ' || CAST(m.seq AS TEXT) || ' of thread ' || t.id || ' of ' || t.resource AS place
FROM messages m JOIN threads t ON t.pk = m.thread_pk
WHERE m.state = 'forgotten' AND (m.injection IS NOT NULL OR m.search IS NOT NULL OR m.metadata <> '{}' OR m.speaker IS NOT NULL)
  AND (CAST(:resource AS TEXT) IS NULL OR t.resource = :resource)

-- fix_tombstone --
UPDATE messages SET injection = NULL, search = NULL, metadata = '{}', speaker = NULL WHERE pk = :key

-- deleted_lines --
SELECT o.pk AS key, 'observation ' || o.id || ' of ' || l.resource AS place
FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
WHERE o.state = 'deleted' AND (o.text <> '' OR o.verbatim IS NOT NULL)
  AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)

-- fix_deleted_line --
UPDATE observations SET text = '', verbatim = NULL, files = '[]', metadata = '{}' WHERE pk = :key

-- dead_sources --
SELECT DISTINCT o.pk AS key, 'observation ' || o.id || ' of ' || l.resource AS place
FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
JOIN observation_sources s ON s.observation_pk = o.pk
JOIN messages m ON m.thread_pk = s.thread_pk AND m.seq BETWEEN s.first_seq AND s.last_seq
WHERE o.state = 'active' AND g.state = 'active' AND m.state <> 'live'
  AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)

-- no_sources --
SELECT o.pk AS key, 'observation ' || o.id || ' of ' || l.resource AS place
FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
WHERE o.state = 'active' AND g.state IN ('active', 'covered')
  AND NOT EXISTS (SELECT 1 FROM observation_sources s WHERE s.observation_pk = o.pk)
  AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)

-- strange_sources --
SELECT DISTINCT o.pk AS key, 'observation ' || o.id || ' of ' || l.resource AS place
FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
JOIN observation_sources s ON s.observation_pk = o.pk JOIN threads t ON t.pk = s.thread_pk
WHERE g.state <> 'void' AND (t.resource <> l.resource OR s.last_seq > t.last_seq
  OR (g.kind = 'observer' AND (s.thread_pk <> g.thread_pk OR s.first_seq < g.first_seq OR s.last_seq > g.last_seq)))
  AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)

-- line_counts --
SELECT g.pk AS key, 'group ' || g.handle || ' of ' || l.resource AS place, g.observations, COUNT(o.pk) AS counted
FROM groups g JOIN logs l ON l.pk = g.log_pk LEFT JOIN observations o ON o.group_pk = g.pk
WHERE CAST(:resource AS TEXT) IS NULL OR l.resource = :resource
GROUP BY g.pk, g.handle, l.resource, g.observations
HAVING g.observations <> COUNT(o.pk)

-- fix_line_count --
UPDATE groups SET observations = (SELECT COUNT(*) FROM observations o WHERE o.group_pk = groups.pk) WHERE pk = :key

-- group_tokens --
SELECT g.pk AS key, 'group ' || g.handle || ' of ' || l.resource AS place, g.tokens, g.text
FROM groups g JOIN logs l ON l.pk = g.log_pk
WHERE g.state IN ('active', 'covered') AND ((g.text <> '' AND g.tokens = 0) OR (g.text = '' AND g.tokens > 0))
  AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)

-- fix_group_tokens --
UPDATE groups SET tokens = :tokens WHERE pk = :key

-- message_tokens --
SELECT m.pk AS key, 'message ' || CAST(m.seq AS TEXT) || ' of thread ' || t.id || ' of ' || t.resource AS place
FROM messages m JOIN threads t ON t.pk = m.thread_pk
WHERE m.tokens = 0 AND m.state = 'live' AND m.parts <> '[]' AND (CAST(:resource AS TEXT) IS NULL OR t.resource = :resource)

-- generations --
SELECT l.pk AS key, 'a log of ' || l.resource AS place, l.generation, COALESCE(MAX(g.number), -1) AS newest
FROM logs l LEFT JOIN generations g ON g.log_pk = l.pk
WHERE CAST(:resource AS TEXT) IS NULL OR l.resource = :resource
GROUP BY l.pk, l.resource, l.generation
HAVING l.generation <> COALESCE(MAX(g.number), -1)

-- fix_generation --
UPDATE logs SET version = version + 1, generation = (SELECT MAX(g.number) FROM generations g WHERE g.log_pk = logs.pk)
WHERE pk = :key AND EXISTS (SELECT 1 FROM generations g WHERE g.log_pk = logs.pk)

-- unlisted --
SELECT g.pk AS key, 'group ' || g.handle || ' of ' || l.resource AS place
FROM groups g JOIN logs l ON l.pk = g.log_pk
WHERE g.state = 'active' AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)
  AND NOT EXISTS (SELECT 1 FROM log_entries e WHERE e.log_pk = l.pk AND e.generation = l.generation AND e.group_pk = g.pk)

-- fix_unlisted --
INSERT INTO log_entries (log_pk, generation, position, group_pk, added_at)
SELECT l.pk, l.generation, (SELECT COALESCE(MAX(e.position), 0) + 1 FROM log_entries e
  WHERE e.log_pk = l.pk AND e.generation = l.generation), g.pk, COALESCE(g.activated_at, g.created_at)
FROM groups g JOIN logs l ON l.pk = g.log_pk
WHERE g.pk = :key AND NOT EXISTS (SELECT 1 FROM log_entries e
  WHERE e.log_pk = l.pk AND e.generation = l.generation AND e.group_pk = g.pk)

-- wrongly_listed --
SELECT g.pk AS key, 'group ' || g.handle || ' of ' || l.resource AS place, g.state
FROM log_entries e JOIN logs l ON l.pk = e.log_pk AND l.generation = e.generation JOIN groups g ON g.pk = e.group_pk
WHERE (g.state <> 'active' OR g.log_pk <> l.pk) AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)

-- unmade --
SELECT g.pk AS key, 'group ' || g.handle || ' of ' || l.resource AS place, COALESCE(r.status, 'missing') AS status
FROM groups g JOIN logs l ON l.pk = g.log_pk LEFT JOIN runs r ON r.pk = g.run_pk
WHERE g.kind <> 'edit' AND COALESCE(r.status, 'missing') <> 'done' AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)

-- endless_runs --
SELECT r.pk AS key, 'run ' || r.id || ' of ' || l.resource AS place FROM runs r JOIN logs l ON l.pk = r.log_pk
WHERE r.status = 'running' AND r.lease_until > :latest AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)

-- fix_endless_run --
UPDATE runs SET lease_until = heartbeat_at WHERE pk = :key

-- endless_leases --
SELECT x.name AS key, 'lease ' || x.name || ' of ' || x.resource AS place, x.resource FROM leases x
WHERE x.owner IS NOT NULL AND x.expires_at > :latest AND (CAST(:resource AS TEXT) IS NULL OR x.resource = :resource)

-- idle_leases --
-- Leases for tasks that are closed or do not exist.
SELECT x.name AS key, 'lease ' || x.name || ' of ' || x.resource AS place, x.resource FROM leases x
LEFT JOIN tasks k ON k.resource = x.resource AND 'task:' || k.id = x.name
WHERE x.owner IS NOT NULL AND x.name LIKE 'task:%' AND (k.pk IS NULL OR k.status = 'closed')
  AND (CAST(:resource AS TEXT) IS NULL OR x.resource = :resource)

-- fix_lease --
-- The fence stays, so that a write of the old owner is refused.
UPDATE leases SET owner = NULL, expires_at = 0 WHERE resource = :resource AND name = :key

-- hints --
SELECT t.pk AS key, 'thread ' || t.id || ' of ' || t.resource AS place, t.hinted_seq, t.last_seq FROM threads t
WHERE t.hinted_seq > t.last_seq AND (CAST(:resource AS TEXT) IS NULL OR t.resource = :resource)

-- fix_hints --
UPDATE threads SET hinted_seq = last_seq WHERE pk = :key

-- aliases --
SELECT c.thread_pk AS key, 'thread ' || t.id || ' in a log of ' || l.resource AS place, c.alias, l.pk AS log_pk
FROM cursors c JOIN logs l ON l.pk = c.log_pk JOIN threads t ON t.pk = c.thread_pk
WHERE c.alias < 1 AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)

-- fix_alias --
UPDATE cursors SET alias = (SELECT MAX(x.alias) + 1 FROM cursors x WHERE x.log_pk = :log_pk)
WHERE log_pk = :log_pk AND thread_pk = :key

-- foreign_cursors --
SELECT c.thread_pk AS key, 'thread ' || t.id || ' in a log of ' || l.resource AS place, t.resource
FROM cursors c JOIN logs l ON l.pk = c.log_pk JOIN threads t ON t.pk = c.thread_pk
WHERE (t.resource <> l.resource OR (l.thread_pk IS NOT NULL AND l.thread_pk <> c.thread_pk))
  AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)

-- blocked --
SELECT k.pk AS key, 'task ' || k.handle || ' of ' || k.resource AS place, k.blocked FROM tasks k
WHERE (CAST(:resource AS TEXT) IS NULL OR k.resource = :resource) AND k.blocked <> CASE
  WHEN k.status = 'closed' THEN 0
  WHEN EXISTS (SELECT 1 FROM task_links x JOIN tasks b ON b.pk = x.source_pk
    WHERE x.target_pk = k.pk AND x.kind = 'blocks' AND b.status <> 'closed') THEN 1
  WHEN EXISTS (SELECT 1 FROM task_links x JOIN tasks p ON p.pk = x.source_pk
    WHERE x.target_pk = k.pk AND x.kind = 'parent-child' AND p.blocked = 1) THEN 1
  ELSE 0 END

-- ordering_links --
SELECT s.resource, s.handle AS source, t.handle AS target, s.pk AS source_pk, t.pk AS target_pk, t.resource AS other FROM task_links x
JOIN tasks s ON s.pk = x.source_pk JOIN tasks t ON t.pk = x.target_pk
WHERE (x.kind IN ('blocks', 'parent-child') OR s.resource <> t.resource)
  AND (CAST(:resource AS TEXT) IS NULL OR s.resource = :resource)

-- handles_given --
SELECT b.resource AS key, 'the tasks of ' || b.resource AS place, b.last_handle, COUNT(k.pk) AS tasks FROM task_books b
JOIN tasks k ON k.resource = b.resource AND k.handle LIKE 'T-%'
WHERE CAST(:resource AS TEXT) IS NULL OR b.resource = :resource
GROUP BY b.resource, b.last_handle
HAVING COUNT(k.pk) > b.last_handle

-- documents --
SELECT d.pk AS key, 'a working memory of ' || d.resource AS place, d.version, COUNT(v.version) AS versions, COALESCE(MAX(v.version), 0) AS newest
FROM working_memory d LEFT JOIN working_memory_versions v ON v.document_pk = d.pk
WHERE CAST(:resource AS TEXT) IS NULL OR d.resource = :resource
GROUP BY d.pk, d.resource, d.version
HAVING d.version <> COALESCE(MAX(v.version), 0) OR COUNT(v.version) <> COALESCE(MAX(v.version), 0)

-- fix_document --
UPDATE working_memory SET version = (SELECT MAX(v.version) FROM working_memory_versions v WHERE v.document_pk = working_memory.pk)
WHERE pk = :key AND EXISTS (SELECT 1 FROM working_memory_versions v WHERE v.document_pk = working_memory.pk)

-- lost_lines --
SELECT o.pk AS key, 'observation ' || o.id AS place FROM observations o WHERE NOT EXISTS (SELECT 1 FROM groups g WHERE g.pk = o.group_pk)

-- lost_messages --
SELECT m.pk AS key, 'message ' || m.id AS place FROM messages m WHERE NOT EXISTS (SELECT 1 FROM threads t WHERE t.pk = m.thread_pk)

-- lost_entries --
SELECT e.group_pk AS key, 'an entry of generation ' || CAST(e.generation AS TEXT) AS place FROM log_entries e
WHERE NOT EXISTS (SELECT 1 FROM groups g WHERE g.pk = e.group_pk)

-- fix_lost_entry --
DELETE FROM log_entries WHERE group_pk = :key AND NOT EXISTS (SELECT 1 FROM groups g WHERE g.pk = log_entries.group_pk)

-- lost_links --
SELECT x.task_pk AS key, 'a link to message ' || CAST(x.seq AS TEXT) AS place FROM task_messages x
WHERE NOT EXISTS (SELECT 1 FROM tasks k WHERE k.pk = x.task_pk)
  OR NOT EXISTS (SELECT 1 FROM messages m WHERE m.thread_pk = x.thread_pk AND m.seq = x.seq)

-- fix_lost_link --
DELETE FROM task_messages WHERE task_pk = :key AND (NOT EXISTS (SELECT 1 FROM tasks k WHERE k.pk = task_messages.task_pk)
  OR NOT EXISTS (SELECT 1 FROM messages m WHERE m.thread_pk = task_messages.thread_pk AND m.seq = task_messages.seq))

-- lost_prompts --
SELECT p.run_pk AS key, 'a kept prompt' AS place FROM run_prompts p WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.pk = p.run_pk)

-- fix_lost_prompt --
DELETE FROM run_prompts WHERE run_pk = :key

-- spans --
-- The spans of groups that are or will be in a log, and the spans of unfinished runs.
SELECT g.log_pk, g.thread_pk, g.first_seq, g.last_seq, g.state, g.handle, g.pk FROM groups g JOIN logs l ON l.pk = g.log_pk
WHERE g.kind = 'observer' AND g.state <> 'void' AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)
UNION ALL
SELECT r.log_pk, r.thread_pk, r.first_seq, r.last_seq, 'running', r.id, 0 FROM runs r JOIN logs l ON l.pk = r.log_pk
WHERE r.kind = 'observe' AND r.status IN ('running', 'failed') AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)

-- cursors --
SELECT c.log_pk, c.thread_pk, c.seq, c.alias, t.id AS thread, l.resource, t.last_seq FROM cursors c
JOIN logs l ON l.pk = c.log_pk JOIN threads t ON t.pk = c.thread_pk
WHERE CAST(:resource AS TEXT) IS NULL OR l.resource = :resource

-- drop_cursor --
DELETE FROM cursors WHERE log_pk = :log_pk AND thread_pk = :thread_pk

-- put_cursor --
-- A trigger refuses to move a cursor back, so `drop_cursor` deletes the wrong row before, and this row gets its alias.
INSERT INTO cursors (log_pk, thread_pk, seq, alias) VALUES (:log_pk, :thread_pk, :seq, :alias)

-- void_group --
UPDATE groups SET state = 'void' WHERE pk = :key AND state = 'buffered'

-- pairs --
SELECT m.thread_pk, m.seq, m.role, m.state, m.pairs FROM messages m JOIN threads t ON t.pk = m.thread_pk
WHERE (m.pairs IS NOT NULL OR m.role = 'user') AND (CAST(:resource AS TEXT) IS NULL OR t.resource = :resource)
ORDER BY m.thread_pk, m.seq

-- listed --
SELECT l.pk, l.resource, g.id, g.handle FROM logs l
JOIN log_entries e ON e.log_pk = l.pk AND e.generation = l.generation JOIN groups g ON g.pk = e.group_pk
WHERE CAST(:resource AS TEXT) IS NULL OR l.resource = :resource
ORDER BY l.pk, e.position

-- log_groups --
SELECT g.log_pk, g.id, g.handle, g.kind, g.state, r.inputs FROM groups g JOIN logs l ON l.pk = g.log_pk
LEFT JOIN runs r ON r.pk = g.run_pk
WHERE CAST(:resource AS TEXT) IS NULL OR l.resource = :resource

-- examined --
SELECT (SELECT COUNT(*) FROM threads t WHERE CAST(:resource AS TEXT) IS NULL OR t.resource = :resource),
  (SELECT COUNT(*) FROM messages m JOIN threads t ON t.pk = m.thread_pk WHERE CAST(:resource AS TEXT) IS NULL OR t.resource = :resource),
  (SELECT COUNT(*) FROM groups g JOIN logs l ON l.pk = g.log_pk WHERE CAST(:resource AS TEXT) IS NULL OR l.resource = :resource),
  (SELECT COUNT(*) FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
    WHERE CAST(:resource AS TEXT) IS NULL OR l.resource = :resource),
  (SELECT COUNT(*) FROM tasks k WHERE CAST(:resource AS TEXT) IS NULL OR k.resource = :resource),
  (SELECT COUNT(*) FROM search_docs d JOIN search_scopes s ON s.pk = d.scope_pk
    WHERE CAST(:resource AS TEXT) IS NULL OR s.resource = :resource),
  COALESCE((SELECT SUM(t.last_seq - t.indexed_seq) FROM search_behind b JOIN threads t ON t.pk = b.thread_pk
    WHERE CAST(:resource AS TEXT) IS NULL OR b.resource = :resource), 0)
  + (SELECT COUNT(*) FROM search_queue w WHERE CAST(:resource AS TEXT) IS NULL OR w.resource = :resource)

-- unindexed --
-- Messages before `indexed_seq` that are not in the index. The caller skips those without words.
SELECT m.pk, m.thread_pk, m.seq, m.role, m.created_at, m.state, m.own, m.level, m.speaker, m.parts, m.search, t.resource,
  t.id AS thread
FROM messages m JOIN threads t ON t.pk = m.thread_pk
WHERE m.state = 'live' AND m.own = 0 AND m.seq <= t.indexed_seq AND (CAST(:resource AS TEXT) IS NULL OR t.resource = :resource)
  AND NOT EXISTS (SELECT 1 FROM search_docs d
    WHERE d.doc BETWEEN (m.thread_pk << 33) + (m.seq << 8) AND (m.thread_pk << 33) + (m.seq << 8) + 255)
  AND NOT EXISTS (SELECT 1 FROM search_queue w WHERE w.kind = 'message' AND w.source_pk = m.pk)

-- unindexed_lines --
-- Observations that a search should find and that are not in the index. The caller skips those without words.
SELECT o.pk, COALESCE(o.said_at, g.created_at) AS at, o.state, o.text, o.verbatim, o.files, g.kind, g.thread_pk, 0 AS version,
  l.resource, g.handle || '.' || o.ordinal AS handle
FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
WHERE o.state IN ('active', 'superseded', 'dropped') AND g.state IN ('active', 'covered')
  AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)
  AND NOT EXISTS (SELECT 1 FROM search_docs d WHERE d.doc BETWEEN -(o.pk << 9) - 255 AND -(o.pk << 9))
  AND NOT EXISTS (SELECT 1 FROM search_queue w WHERE w.kind = 'observation' AND w.source_pk = o.pk)

-- stale_docs --
SELECT d.doc AS key, 'a document of ' || s.resource AS place, s.resource FROM search_docs d JOIN search_scopes s ON s.pk = d.scope_pk
LEFT JOIN messages m ON d.doc > 0 AND m.pk = d.source_pk AND m.thread_pk = d.thread_pk
LEFT JOIN observations o ON d.source IN ('observation', 'reflection') AND o.pk = d.source_pk
LEFT JOIN tasks k ON d.source = 'task' AND k.pk = d.source_pk
WHERE (CAST(:resource AS TEXT) IS NULL OR s.resource = :resource)
  AND ((d.doc > 0 AND (m.pk IS NULL OR m.state <> 'live' OR m.own = 1))
    OR (d.source IN ('observation', 'reflection') AND (o.pk IS NULL OR o.state IN ('retracted', 'deleted')))
    OR (d.source = 'task' AND k.pk IS NULL))

-- wrong_stats --
SELECT x.scope_pk AS key, 'the index of ' || s.resource AS place, s.resource, x.documents, COUNT(d.doc) AS counted FROM search_stats x
JOIN search_scopes s ON s.pk = x.scope_pk LEFT JOIN search_docs d ON d.scope_pk = x.scope_pk AND d.kind = x.kind
WHERE CAST(:resource AS TEXT) IS NULL OR s.resource = :resource
GROUP BY x.scope_pk, s.resource, x.kind, x.documents, x.length
HAVING x.documents <> COUNT(d.doc) OR x.length <> COALESCE(SUM(d.length), 0)

-- wrong_counts --
SELECT s.pk AS key, 'the index of ' || s.resource AS place, s.resource, COUNT(*) AS terms
FROM (SELECT scope_pk, term FROM (
    SELECT scope_pk, term, documents FROM search_counts
    UNION ALL SELECT scope_pk, term, -1 FROM search_counted) AS each_one
  GROUP BY scope_pk, term HAVING SUM(documents) <> 0) AS wrong
JOIN search_scopes s ON s.pk = wrong.scope_pk
WHERE CAST(:resource AS TEXT) IS NULL OR s.resource = :resource
GROUP BY s.pk, s.resource

-- unwatched --
SELECT t.pk AS key, 'thread ' || t.id || ' of ' || t.resource AS place, t.resource FROM threads t
WHERE (CAST(:resource AS TEXT) IS NULL OR t.resource = :resource) AND (t.indexed_seq > t.last_seq
  OR (t.indexed_seq < t.last_seq AND NOT EXISTS (SELECT 1 FROM search_behind b WHERE b.thread_pk = t.pk)))

-- stale_vectors --
-- The place of a vector is that of its text in the index: search/embedding.py.
SELECT v.pk AS key, 'a vector of ' || s.resource AS place, s.resource, e.dimension FROM search_vectors v
JOIN search_vector_sets s ON s.pk = v.pk >> 32 JOIN search_embedders e ON e.pk = s.embedder_pk
LEFT JOIN messages m ON v.place > 0 AND m.thread_pk = v.place >> 25 AND m.seq = v.place & 33554431
LEFT JOIN threads t ON t.pk = m.thread_pk
LEFT JOIN observations o ON v.place < 0 AND o.pk = -v.place / 2
LEFT JOIN groups g ON g.pk = o.group_pk LEFT JOIN logs l ON l.pk = g.log_pk
WHERE (CAST(:resource AS TEXT) IS NULL OR s.resource = :resource)
  AND (LENGTH(v.vector) <> e.dimension OR COALESCE(t.resource, l.resource, '') <> s.resource
    OR (v.place > 0 AND (m.state <> 'live' OR m.own = 1)) OR (v.place < 0 AND o.state IN ('retracted', 'deleted')))

-- fix_stale_vector --
DELETE FROM search_vectors WHERE pk = :key

-- missing_vectors --
-- The texts without a vector of an embedder whose vectors should be complete.
SELECT d.doc AS key, 'a text of ' || c.resource AS place, e.pk AS embedder_pk, e.name AS embedder, d.scope_pk
FROM search_docs d JOIN search_scopes c ON c.pk = d.scope_pk JOIN search_embedders e ON e.filled IS NULL
WHERE (CAST(:resource AS TEXT) IS NULL OR c.resource = :resource) AND d.source <> 'task'
  AND NOT EXISTS (SELECT 1 FROM search_vector_queue w WHERE w.doc = d.doc AND w.embedder_pk = e.pk)
  AND NOT EXISTS (SELECT 1 FROM search_vectors v JOIN search_vector_sets s ON s.pk = v.pk >> 32
    WHERE v.place = CASE WHEN d.doc > 0 THEN d.doc >> 8 ELSE -(-d.doc >> 8) END AND s.embedder_pk = e.pk)

-- fix_missing_vector --
INSERT INTO search_vector_queue (embedder_pk, scope_pk, doc) VALUES (:embedder_pk, :scope_pk, :key) ON CONFLICT DO NOTHING

-- rendered --
SELECT g.log_pk, g.id, 'group ' || g.handle || ' of ' || l.resource AS place
FROM groups g JOIN logs l ON l.pk = g.log_pk
WHERE g.text <> '' AND g.state IN ('active', 'covered') AND (CAST(:resource AS TEXT) IS NULL OR l.resource = :resource)
ORDER BY g.pk

-- touch_log_of --
-- Processes that have read an older version of the log must decide again.
UPDATE logs SET version = version + 1 WHERE pk = (SELECT g.log_pk FROM groups g WHERE g.pk = :key)
