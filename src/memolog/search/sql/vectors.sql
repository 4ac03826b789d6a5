-- embedder_named --
-- The rows of an embedder, the one that was chosen last first, and the number of the last choice.
SELECT pk, dimension, chosen, filled, (SELECT MAX(chosen) FROM search_embedders) AS newest
FROM search_embedders WHERE name = :name
ORDER BY chosen DESC

-- choose_embedder --
-- The last document of an embedder whose documents are all in the queue stays NULL.
INSERT INTO search_embedders (name, dimension, chosen, filled)
VALUES (:name, :dimension, (SELECT COALESCE(MAX(chosen), 0) + 1 FROM search_embedders), :first)
ON CONFLICT (name, dimension) DO UPDATE SET chosen = excluded.chosen
RETURNING pk

-- claim_making --
-- Returns a row if no other process makes vectors now.
UPDATE search_embedders SET maker = :owner, made_until = :made_until
WHERE pk = :embedder_pk AND (maker IS NULL OR maker = :owner OR made_until <= :now)
RETURNING chosen, filled

-- read_embedder --
SELECT chosen, filled FROM search_embedders WHERE pk = :embedder_pk

-- end_making --
UPDATE search_embedders SET maker = NULL WHERE pk = :embedder_pk AND maker = :owner

-- next_to_fill --
SELECT MAX(doc) AS doc FROM (SELECT doc FROM search_docs WHERE doc > :after ORDER BY doc LIMIT :limit) AS found

-- scopes_to_fill --
-- In a fixed order, to avoid deadlocks.
SELECT DISTINCT scope_pk FROM search_docs WHERE doc > :after AND doc <= :up_to ORDER BY scope_pk

-- lock_scope --
-- The same lock as take_scope of reindex.sql, but a scope that was deleted is not created again. Without this lock, fill could add a
-- document that another transaction is deleting: that transaction does not see the new row of the queue, so the row would remain.
UPDATE search_scopes SET resource = resource WHERE pk = :scope_pk

-- fill --
INSERT INTO search_vector_queue (embedder_pk, scope_pk, doc)
SELECT e.pk, d.scope_pk, d.doc FROM search_docs d JOIN search_embedders e ON e.pk = :embedder_pk
WHERE d.doc > :after AND d.doc <= :up_to AND d.source <> 'task' AND d.scope_pk IN (:scopes[])
  AND NOT EXISTS (SELECT 1 FROM search_vectors v JOIN search_vector_sets s ON s.pk = v.pk >> 32
    WHERE v.place = CASE WHEN d.doc > 0 THEN d.doc >> 8 ELSE -(-d.doc >> 8) END AND s.embedder_pk = e.pk)
ON CONFLICT DO NOTHING

-- set_filled --
UPDATE search_embedders SET filled = :filled WHERE pk = :embedder_pk

-- select_wanted --
SELECT w.pk, w.doc, s.resource FROM search_vector_queue w JOIN search_scopes s ON s.pk = w.scope_pk

-- wanted --
{select_wanted} WHERE w.embedder_pk = :embedder_pk AND w.pk > :after ORDER BY w.pk LIMIT :limit

-- wanted_of --
{select_wanted} WHERE w.embedder_pk = :embedder_pk AND s.resource = :resource AND w.pk > :after ORDER BY w.pk LIMIT :limit

-- count_wanted_of --
SELECT COUNT(*) AS wanted FROM search_vector_queue w JOIN search_scopes s ON s.pk = w.scope_pk
WHERE w.embedder_pk = :embedder_pk AND s.resource = :resource

-- message_texts --
SELECT d.doc, m.parts, m.search, m.speaker, t.id AS thread
FROM search_docs d JOIN messages m ON m.pk = d.source_pk JOIN threads t ON t.pk = m.thread_pk
WHERE d.doc IN (:docs[]) AND d.doc > 0

-- line_texts --
SELECT d.doc, o.state, o.text, o.verbatim, o.files, t.id AS thread
FROM search_docs d JOIN observations o ON o.pk = d.source_pk
JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
LEFT JOIN threads t ON t.pk = COALESCE(g.thread_pk, l.thread_pk)
WHERE d.doc IN (:docs[]) AND d.source IN ('observation', 'reflection')

-- claim_wanted --
-- A text that has changed since it was read is in the queue with another key, and a text that is gone is not in the queue.
DELETE FROM search_vector_queue WHERE pk IN (:pks[]) RETURNING pk

-- take_set --
-- Writers of one set wait for each other here, so that its numbers are committed in their order.
INSERT INTO search_vector_sets (embedder_pk, resource, last) VALUES (:embedder_pk, :resource, :count)
ON CONFLICT (resource, embedder_pk) DO UPDATE SET last = search_vector_sets.last + excluded.last
RETURNING pk, last

-- add_vector --
INSERT INTO search_vectors (pk, place, scale, vector) VALUES (:pk, :place, :scale, :vector)

-- set_of --
SELECT pk, last FROM search_vector_sets WHERE resource = :resource AND embedder_pk = :embedder_pk

-- mirrored_set_of --
-- On PostgreSQL: the same, and whether pgvector can compare the vectors.
SELECT pk, last, search_is_mirrored(pk) AS is_mirrored FROM search_vector_sets
WHERE resource = :resource AND embedder_pk = :embedder_pk

-- nearest --
-- On PostgreSQL with pgvector.
SELECT pk, place, similarity FROM search_nearest(:set_pk, :query, :most, :lowest, :threads)

-- mirror --
-- On PostgreSQL: let pgvector compare some more vectors, if it is installed.
SELECT search_mirror(:most) AS mirrored

-- thread_pks --
SELECT pk FROM threads WHERE resource = :resource AND id IN (:threads[])

-- vectors_after --
SELECT pk, place, scale, vector FROM search_vectors WHERE pk > :after AND pk <= :last ORDER BY pk LIMIT :limit

-- alive --
-- The vectors that still exist. Other processes may have deleted some since they were read.
SELECT v.pk, v.place FROM search_vectors v JOIN search_vector_sets s ON s.pk = v.pk >> 32
WHERE v.pk IN (:pks[]) AND s.resource = :resource

-- older_set --
-- A set of vectors of an embedder that was chosen before.
SELECT s.pk, s.last FROM search_vector_sets s JOIN search_embedders e ON e.pk = s.embedder_pk
WHERE e.chosen < :chosen
LIMIT 1

-- delete_vectors --
DELETE FROM search_vectors WHERE pk BETWEEN :first AND :last

-- delete_set --
DELETE FROM search_vector_sets WHERE pk = :pk

-- forget_older_queue --
DELETE FROM search_vector_queue WHERE embedder_pk IN (SELECT pk FROM search_embedders WHERE chosen < :chosen)

-- forget_older --
DELETE FROM search_embedders WHERE chosen < :chosen

-- forget_sets --
DELETE FROM search_vector_sets WHERE resource = :resource
