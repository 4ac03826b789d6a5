-- get_scope --
SELECT pk FROM search_scopes WHERE resource = :resource

-- any_behind --
-- Whether a resource has new messages, or changed rows in the queue, that are not indexed yet.
SELECT EXISTS (SELECT 1 FROM search_behind WHERE resource = :resource) AS behind,
  EXISTS (SELECT 1 FROM search_queue WHERE resource = :resource) AS queued

-- count_behind --
SELECT COUNT(*) AS threads FROM search_behind WHERE resource = :resource

-- count_waiting --
-- The number of new messages and of changed rows that are not indexed yet.
SELECT CAST(COALESCE((SELECT SUM(t.last_seq - t.indexed_seq) FROM search_behind b JOIN threads t ON t.pk = b.thread_pk
    WHERE b.resource = :resource), 0) AS BIGINT)
  + (SELECT COUNT(*) FROM search_queue WHERE resource = :resource) AS waiting

-- count_all_waiting --
-- The same for all resources. At most :limit threads and :limit rows of the queue are counted.
SELECT CAST(COALESCE((SELECT SUM(t.last_seq - t.indexed_seq) FROM (SELECT thread_pk FROM search_behind LIMIT :limit) AS b
    JOIN threads t ON t.pk = b.thread_pk), 0) AS BIGINT)
  + (SELECT COUNT(*) FROM (SELECT 1 FROM search_queue LIMIT :limit) AS q) AS waiting

-- next_waiting --
-- The first resource after another one that has rows to index.
SELECT MIN(resource) AS resource FROM (
  SELECT MIN(resource) AS resource FROM search_behind WHERE resource > :after
  UNION ALL
  SELECT MIN(resource) AS resource FROM search_queue WHERE resource > :after) AS waiting

-- threads_behind --
SELECT t.pk, t.indexed_seq, t.last_seq FROM search_behind b JOIN threads t ON t.pk = b.thread_pk
WHERE b.resource = :resource
ORDER BY t.pk
LIMIT :limit

-- select_texts --
-- The columns of a message that are indexed.
SELECT m.pk, m.thread_pk, m.seq, m.role, m.created_at, m.state, m.own, m.level, m.speaker, m.parts, m.search

-- messages_behind --
{select_texts}
FROM messages m WHERE m.thread_pk = :thread_pk AND m.seq > :after AND m.seq <= :up_to
ORDER BY m.seq
LIMIT :limit

-- messages_queued --
-- Messages that were never indexed are left out, because they are indexed with their thread.
{select_texts}, q.version
FROM search_queue q JOIN messages m ON m.pk = q.source_pk JOIN threads t ON t.pk = m.thread_pk
WHERE q.resource = :resource AND q.kind = 'message' AND m.seq <= t.indexed_seq
LIMIT :limit

-- select_lines --
-- The columns of an observation that are indexed.
SELECT o.pk, COALESCE(o.said_at, g.created_at) AS at, o.state, o.text, o.verbatim, o.files, g.kind, g.thread_pk

-- observations_queued --
{select_lines}, q.version
FROM search_queue q JOIN observations o ON o.pk = q.source_pk JOIN groups g ON g.pk = o.group_pk
WHERE q.resource = :resource AND q.kind = 'observation'
LIMIT :limit

-- observations_now --
{select_lines}
FROM observations o JOIN groups g ON g.pk = o.group_pk WHERE o.pk IN (:pks[])

-- select_plans --
-- The columns of a task that are indexed, besides its labels.
SELECT k.pk, k.created_at, k.title, k.description, k.summary

-- tasks_queued --
{select_plans}, q.version
FROM search_queue q JOIN tasks k ON k.pk = q.source_pk
WHERE q.resource = :resource AND q.kind = 'task'
LIMIT :limit

-- tasks_now --
{select_plans}
FROM tasks k WHERE k.pk IN (:pks[])

-- labels_of --
SELECT task_pk, label FROM task_labels WHERE task_pk IN (:tasks[]) ORDER BY task_pk, label

-- claim_thread --
-- Returns a row only if no other process has indexed messages of the thread since it was read.
UPDATE threads SET indexed_seq = :up_to WHERE pk = :thread_pk AND indexed_seq = :from_seq
RETURNING last_seq

-- thread_is_indexed --
DELETE FROM search_behind
WHERE thread_pk = :thread_pk AND EXISTS (SELECT 1 FROM threads WHERE pk = :thread_pk AND last_seq <= indexed_seq)

-- claim_queued --
-- A row that changed again since it was read has another version and stays in the queue.
DELETE FROM search_queue WHERE kind = :kind AND version = :version AND source_pk IN (:pks[])
RETURNING source_pk

-- wait_again --
INSERT INTO search_queue (kind, source_pk, resource) VALUES (:kind, :source_pk, :resource)
ON CONFLICT (kind, source_pk) DO UPDATE SET version = search_queue.version + 1

-- unchanged --
-- The messages that are still live, with their present level of compaction.
SELECT pk, level FROM messages WHERE pk IN (:messages[]) AND state = 'live'

-- remove_docs --
DELETE FROM search_docs WHERE doc BETWEEN :first AND :last

-- add_doc --
INSERT INTO search_docs (doc, scope_pk, thread_pk, source_pk, source, kind, at, length, traits, speaker, terms)
VALUES (:doc, :scope_pk, :thread_pk, :source_pk, :source, :kind, :at, :length, :traits, :speaker, :terms)

-- fts_add --
-- FTS5 writes a segment to the file whenever a key is lower than the one before, so the keys are in ascending order.
INSERT INTO search_index (rowid, terms) SELECT doc, terms FROM search_docs WHERE doc IN (:docs[]) ORDER BY doc

-- add_counts --
INSERT INTO search_counts (scope_pk, term, documents)
SELECT scope_pk, term, COUNT(*) FROM search_counted WHERE doc IN (:docs[]) GROUP BY scope_pk, term ORDER BY scope_pk, term
ON CONFLICT (scope_pk, term) DO UPDATE SET documents = search_counts.documents + excluded.documents

-- add_stats --
INSERT INTO search_stats (scope_pk, kind, documents, length)
SELECT scope_pk, kind, COUNT(*), CAST(SUM(length) AS BIGINT) FROM search_docs WHERE doc IN (:docs[]) GROUP BY scope_pk, kind
ON CONFLICT (scope_pk, kind) DO UPDATE SET documents = search_stats.documents + excluded.documents,
  length = search_stats.length + excluded.length

-- add_lengths --
INSERT INTO search_threads (thread_pk, user_length, other_length)
SELECT thread_pk, CAST(SUM(CASE WHEN kind = 0 THEN length ELSE 0 END) AS BIGINT),
  CAST(SUM(CASE WHEN kind = 0 THEN 0 ELSE length END) AS BIGINT)
FROM search_docs WHERE doc IN (:docs[]) AND doc > 0 GROUP BY thread_pk
ON CONFLICT (thread_pk) DO UPDATE SET user_length = search_threads.user_length + excluded.user_length,
  other_length = search_threads.other_length + excluded.other_length

-- new_words --
-- Most words of a text are stored already, so only the others are returned.
SELECT given.column1 AS word FROM (VALUES :words()) AS given
WHERE NOT EXISTS (SELECT 1 FROM search_words s WHERE s.scope_pk = :scope_pk AND s.word = given.column1)

-- add_word --
INSERT INTO search_words (scope_pk, word) VALUES (:scope_pk, :word) ON CONFLICT DO NOTHING

-- add_gram --
INSERT INTO search_grams (scope_pk, gram, word) VALUES (:scope_pk, :gram, :word) ON CONFLICT DO NOTHING

-- add_speaker --
INSERT INTO search_speakers (scope_pk, name) VALUES (:scope_pk, :name) ON CONFLICT DO NOTHING

-- stats --
SELECT kind, documents, length FROM search_stats WHERE scope_pk = :scope_pk

-- speakers --
SELECT name FROM search_speakers WHERE scope_pk = :scope_pk LIMIT :limit

-- words_with_prefix --
SELECT word FROM search_words WHERE scope_pk = :scope_pk AND word >= :first AND word < :last ORDER BY word LIMIT :limit

-- words_with_grams --
-- The words that contain all of these trigrams. The order of the trigrams is checked afterwards.
SELECT word FROM search_grams WHERE scope_pk = :scope_pk AND gram IN (:grams[])
GROUP BY word HAVING COUNT(*) >= :count
ORDER BY word
LIMIT :limit

-- words_sharing_grams --
-- The words that contain some of these trigrams, the words with the most of them first.
SELECT word, COUNT(*) AS shared FROM search_grams WHERE scope_pk = :scope_pk AND gram IN (:grams[])
GROUP BY word HAVING COUNT(*) >= :count
ORDER BY COUNT(*) DESC, word
LIMIT :limit

-- hits --
-- The keys of the documents that contain a term. If there are too many, the newest are returned. The keys are one JSON text, because
-- a text with a thousand keys is read several times as fast as a thousand rows.
SELECT wanted.column1 AS term, (
  SELECT json_group_array(rowid) FROM (
    SELECT rowid FROM search_index(wanted.column1) WHERE rowid BETWEEN :first AND :last ORDER BY rowid DESC LIMIT :most) AS found
) AS keys FROM (VALUES :terms()) AS wanted

-- common_terms --
-- The terms that occur in more than so many of the counted documents.
SELECT term, documents FROM search_counts WHERE scope_pk = :scope_pk AND term IN (:terms[]) AND documents > :most

-- terms_of --
-- All terms of some documents, each between quotes, and their details.
SELECT doc, at, traits, speaker, CAST(terms AS TEXT) AS terms FROM search_docs WHERE doc IN (:docs[])

-- details --
-- The details of the documents at some places. A place is a key without its last eight bits.
SELECT doc, at, traits, speaker FROM search_docs WHERE doc >> 8 IN (:places[])

-- threads_of_lines --
-- The threads of some observations.
SELECT doc, thread_pk FROM search_docs WHERE doc IN (:docs[]) AND source IN ('observation', 'reflection')

-- lines_of_thread --
-- The keys of all observations of a thread.
SELECT doc FROM search_docs WHERE thread_pk = :thread_pk AND doc < 0

-- thread_lengths --
SELECT thread_pk, user_length, other_length FROM search_threads WHERE thread_pk IN (:threads[])

-- thread_keys --
SELECT pk, id FROM threads WHERE resource = :resource AND id IN (:threads[])

-- allowed --
-- The documents that pass all filters. A filter with the value any_… = 1 is not applied.
SELECT d.doc FROM search_docs d
LEFT JOIN messages m ON d.doc > 0 AND m.pk = d.source_pk
LEFT JOIN tasks k ON k.pk = m.task_pk
LEFT JOIN tasks own ON d.source = 'task' AND own.pk = d.source_pk
WHERE d.doc IN (:docs[]) AND d.scope_pk = :scope_pk AND d.at >= :after AND d.at < :before AND d.source IN (:sources[])
  AND (:any_role = 1 OR m.role IN (:roles[])) AND COALESCE(m.role, '') NOT IN (:not_roles[])
  AND (:any_thread = 1 OR d.thread_pk IN (:thread_pks[])) AND COALESCE(d.thread_pk, 0) NOT IN (:not_threads[])
  AND (:any_task = 1 OR k.id IN (:tasks[]) OR k.handle IN (:tasks[]) OR own.id IN (:tasks[]) OR own.handle IN (:tasks[])
    OR EXISTS (SELECT 1 FROM task_messages x JOIN tasks y ON y.pk = x.task_pk
      WHERE x.thread_pk = m.thread_pk AND x.seq = m.seq AND (y.id IN (:tasks[]) OR y.handle IN (:tasks[]))))

-- found_messages --
SELECT d.doc, t.resource, t.id AS thread, m.seq, m.id, m.continuation, m.role, m.tokens, m.created_at, m.state, m.own, m.level, m.zone,
  m.speaker, k.id AS task, m.metadata, m.parts, m.injection, m.search, m.pruned, m.turn, m.file_tokens,
  m.reported_file_tokens
FROM search_docs d JOIN messages m ON m.pk = d.source_pk JOIN threads t ON t.pk = m.thread_pk LEFT JOIN tasks k ON k.pk = m.task_pk
WHERE d.doc IN (:docs[]) AND d.doc > 0 AND t.resource = :resource

-- found_observations --
-- Observations of buffered and void groups are not found.
SELECT d.doc, o.id, d.source, d.at, o.state, o.text, o.verbatim, t.id AS thread, o.zone,
  g.handle || '.' || o.ordinal AS handle, o.grounded, o.metadata
FROM search_docs d JOIN observations o ON o.pk = d.source_pk JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
  LEFT JOIN threads t ON t.pk = g.thread_pk
WHERE d.doc IN (:docs[]) AND d.source IN ('observation', 'reflection') AND l.resource = :resource
  AND g.state IN ('active', 'covered')

-- found_tasks --
SELECT d.doc, k.id, k.handle, d.at, k.status, k.title, k.description, k.summary
FROM search_docs d JOIN tasks k ON k.pk = d.source_pk
WHERE d.doc IN (:docs[]) AND d.source = 'task' AND k.resource = :resource
