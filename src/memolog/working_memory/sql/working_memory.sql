-- document --
-- The present version of the document of a thread. `thread_pk` is 0 for the document of the whole resource.
SELECT d.pk, d.format, d.schema, v.version, v.text, v.who, v.at
FROM working_memory d JOIN working_memory_versions v ON v.document_pk = d.pk AND v.version = d.version
WHERE d.resource = :resource AND COALESCE(d.thread_pk, 0) = :thread_pk

-- shown_documents --
-- The documents that a context of a thread shows: that of the resource and that of the thread.
SELECT COALESCE(d.thread_pk, 0) AS thread_pk, v.version, v.text
FROM working_memory d JOIN working_memory_versions v ON v.document_pk = d.pk AND v.version = d.version
WHERE d.resource = :resource AND COALESCE(d.thread_pk, 0) IN (0, :thread_pk)
ORDER BY 1

-- documents_to_search --
-- The document of the resource, and those of its threads that were changed last.
SELECT d.pk, t.id AS thread, v.text, v.at
FROM working_memory d JOIN working_memory_versions v ON v.document_pk = d.pk AND v.version = d.version
LEFT JOIN threads t ON t.pk = d.thread_pk
WHERE d.resource = :resource
ORDER BY CASE WHEN d.thread_pk IS NULL THEN 0 ELSE 1 END, v.at DESC, d.pk DESC
LIMIT :limit

-- present_versions --
-- The versions at the beginning of a generation. In a shared log each thread may have its own document.
SELECT COALESCE(thread_pk, 0) AS thread_pk, version FROM working_memory
WHERE resource = :resource AND (CAST(:thread_pk AS BIGINT) IS NULL OR COALESCE(thread_pk, 0) IN (0, :thread_pk))

-- resource_of_log --
SELECT resource, thread_pk FROM logs WHERE pk = :log_pk

-- lock_document --
-- Locks the row, so that writers of one document wait for each other on both engines.
UPDATE working_memory SET version = version
WHERE resource = :resource AND COALESCE(thread_pk, 0) = :thread_pk
RETURNING pk

-- thread_name --
SELECT id FROM threads WHERE pk = :thread_pk

-- create_document --
-- Two callers may write the first version at the same time. Then the second gets no row.
INSERT INTO working_memory (resource, thread_pk, format, version, schema)
VALUES (:resource, CAST(:thread_pk AS BIGINT), :format, 1, :schema)
ON CONFLICT DO NOTHING
RETURNING pk

-- advance_document --
-- Returns no row if the document has changed since `version`. Then the caller applies its change again.
UPDATE working_memory SET version = version + 1, format = :format, schema = :schema
WHERE pk = :document_pk AND version = :version
RETURNING version

-- add_version --
INSERT INTO working_memory_versions (document_pk, version, at, who, text)
VALUES (:document_pk, :version, :now, :who, :text)

-- version_of --
SELECT v.version, v.text, v.who, v.at
FROM working_memory d JOIN working_memory_versions v ON v.document_pk = d.pk
WHERE d.resource = :resource AND COALESCE(d.thread_pk, 0) = :thread_pk AND v.version = :version

-- versions_before --
SELECT v.version, v.text, v.who, v.at
FROM working_memory d JOIN working_memory_versions v ON v.document_pk = d.pk
WHERE d.resource = :resource AND COALESCE(d.thread_pk, 0) = :thread_pk AND v.version < :before
ORDER BY v.version DESC
LIMIT :limit
