-- tables_of_file --
-- The tables of Mastra, in its own spelling. Ours are in other files.
SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'mastra_%'

-- tables_of_schema --
SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_name LIKE 'mastra_%'

-- threads --
SELECT "id", "resourceId", "title", "metadata", "createdAt", "updatedAt" FROM mastra_threads ORDER BY "createdAt", "id"

-- messages --
SELECT "id", "role", "type", "content", "createdAt" FROM mastra_messages WHERE thread_id = :thread ORDER BY "createdAt", "id"

-- resources --
SELECT "id", "workingMemory" FROM mastra_resources ORDER BY "id"

-- records --
SELECT "id", "scope", "resourceId", "threadId", "activeObservations", "originType", "generationCount", "lastObservedAt",
  "createdAt", "bufferedObservationChunks", "bufferedReflection"
FROM mastra_observational_memory ORDER BY "createdAt", "generationCount", "id"
