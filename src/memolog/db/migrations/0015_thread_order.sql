-- The threads of a resource in the order in which they are listed, so that a page is read without sorting all threads.
CREATE INDEX threads_newest ON threads (resource, updated_at, pk);
-- The observations of a thread in the search index. Their keys, unlike those of messages, do not contain the thread.
CREATE INDEX search_docs_lines ON search_docs (thread_pk, doc) WHERE doc < 0;
