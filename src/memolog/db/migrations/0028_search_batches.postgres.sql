-- The sums of the search index are updated with one statement for each batch of documents, no longer by triggers for each document.
DROP TRIGGER search_docs_added ON search_docs;
DROP FUNCTION search_docs_added();
DROP TRIGGER search_docs_counted ON search_docs;
DROP FUNCTION search_docs_counted();
