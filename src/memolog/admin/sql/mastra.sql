-- tables_of_file --
-- This file queries tables of Mastra. Their column names are in camel case.
SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'mastra_%'

-- tables_of_schema --
SELECT table_name AS name FROM information_schema.tables WHERE table_schema = current_schema() AND table_name LIKE 'mastra_%'

-- threads --
SELECT "id", "resourceId" AS resource, "title", "metadata", "createdAt" AS created_at, "updatedAt" AS updated_at FROM mastra_threads ORDER BY "createdAt", "id"

-- messages --
SELECT "id", "role", "type", "content", "createdAt" AS created_at FROM mastra_messages WHERE thread_id = :thread ORDER BY "createdAt", "id"

-- resources --
SELECT "id", "workingMemory" AS working_memory FROM mastra_resources ORDER BY "id"

-- records --
SELECT "id", "scope", "resourceId" AS resource, "threadId" AS thread, "activeObservations" AS observations, "originType" AS origin,
  "generationCount" AS generation, "lastObservedAt" AS observed_at, "createdAt" AS created_at,
  "bufferedObservationChunks" AS chunks, "bufferedReflection" AS reflection
FROM mastra_observational_memory ORDER BY "createdAt", "generationCount", "id"
