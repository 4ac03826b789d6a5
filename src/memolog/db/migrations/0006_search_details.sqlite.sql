-- A search looks at the time, the traits and the speaker of a hundred documents and at nothing else of them. Their rows are as
-- long as their texts, so that each would be a page of its own; here are many to a page.
DROP INDEX search_docs_place;
CREATE INDEX search_docs_place ON search_docs (doc >> 8, doc, at, traits, speaker);
