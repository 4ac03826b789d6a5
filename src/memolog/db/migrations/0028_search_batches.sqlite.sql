-- The search index is filled with one statement for each batch of documents, no longer by a trigger for each document. A statement
-- with triggers begins a savepoint, and FTS5 writes what it holds in memory to the file at each savepoint. So each document became a
-- segment of its own, which was merged with others soon after. Deleting still needs its triggers.
DROP TRIGGER search_docs_added;
DROP TRIGGER search_docs_counted;
