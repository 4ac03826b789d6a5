-- take_scope --
-- Writers to the index of a resource lock this row first, so that clearing the index sees everything that was added.
INSERT INTO search_scopes (resource) VALUES (:resource) ON CONFLICT (resource) DO UPDATE SET resource = excluded.resource
RETURNING pk

-- delete_docs_of --
DELETE FROM search_docs WHERE scope_pk IN (SELECT pk FROM search_scopes WHERE resource = :resource)
RETURNING doc

-- delete_words_of --
DELETE FROM search_words WHERE scope_pk IN (SELECT pk FROM search_scopes WHERE resource = :resource)
RETURNING word

-- delete_grams_of --
DELETE FROM search_grams WHERE scope_pk IN (SELECT pk FROM search_scopes WHERE resource = :resource)

-- delete_counts_of --
DELETE FROM search_counts WHERE scope_pk IN (SELECT pk FROM search_scopes WHERE resource = :resource)

-- delete_speakers_of --
DELETE FROM search_speakers WHERE scope_pk IN (SELECT pk FROM search_scopes WHERE resource = :resource)

-- delete_stats_of --
DELETE FROM search_stats WHERE scope_pk IN (SELECT pk FROM search_scopes WHERE resource = :resource)

-- delete_lengths_of --
DELETE FROM search_threads WHERE thread_pk IN (SELECT pk FROM threads WHERE resource = :resource)

-- delete_scope --
DELETE FROM search_scopes WHERE resource = :resource

-- index_threads_again --
UPDATE threads SET indexed_seq = 0 WHERE resource = :resource AND indexed_seq > 0

-- wait_for_threads --
INSERT INTO search_behind (thread_pk, resource) SELECT pk, resource FROM threads WHERE resource = :resource
ON CONFLICT (thread_pk) DO NOTHING

-- forget_queue --
DELETE FROM search_queue WHERE resource = :resource

-- wait_for_observations --
-- Those of groups that are or were part of the log. Some may be in the queue already.
INSERT INTO search_queue (kind, source_pk, resource)
SELECT 'observation', o.pk, l.resource FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk
WHERE l.resource = :resource AND g.state IN ('active', 'covered')
ON CONFLICT (kind, source_pk) DO UPDATE SET version = search_queue.version + 1

-- wait_for_tasks --
INSERT INTO search_queue (kind, source_pk, resource) SELECT 'task', pk, resource FROM tasks WHERE resource = :resource
ON CONFLICT (kind, source_pk) DO UPDATE SET version = search_queue.version + 1
