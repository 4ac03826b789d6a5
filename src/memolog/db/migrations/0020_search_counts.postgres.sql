-- How many of the counted documents contain a term, so that a search knows the common words of a resource without reading their
-- lists. One document in seventeen is counted. Roles alternate in a thread, so the number must not be even.
CREATE TABLE search_counts (
  scope_pk BIGINT NOT NULL,
  term TEXT COLLATE "C" NOT NULL,
  documents BIGINT NOT NULL,
  PRIMARY KEY (scope_pk, term)
);

-- The terms of the counted documents, without the marks of their frequency.
CREATE VIEW search_counted AS
SELECT d.doc, d.scope_pk, given.term COLLATE "C" AS term
FROM search_docs d, unnest(tsvector_to_array(d.terms)) AS given (term)
WHERE ((d.doc >> 8) + (d.doc >> 33)) % 17 = 0 AND given.term NOT LIKE '%^';

INSERT INTO search_counts (scope_pk, term, documents)
SELECT scope_pk, term, COUNT(*) FROM search_counted GROUP BY scope_pk, term;

CREATE FUNCTION search_docs_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO search_counts (scope_pk, term, documents) SELECT scope_pk, term, 1 FROM search_counted WHERE doc = NEW.doc
  ON CONFLICT (scope_pk, term) DO UPDATE SET documents = search_counts.documents + 1;
  RETURN NULL;
END $$;
CREATE TRIGGER search_docs_counted AFTER INSERT ON search_docs FOR EACH ROW
WHEN (((NEW.doc >> 8) + (NEW.doc >> 33)) % 17 = 0)
EXECUTE FUNCTION search_docs_counted();

CREATE FUNCTION search_docs_uncounted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE search_counts SET documents = documents - 1
  WHERE scope_pk = OLD.scope_pk AND term IN (SELECT term FROM search_counted WHERE doc = OLD.doc);
  DELETE FROM search_counts
  WHERE scope_pk = OLD.scope_pk AND documents <= 0 AND term IN (SELECT term FROM search_counted WHERE doc = OLD.doc);
  RETURN OLD;
END $$;
CREATE TRIGGER search_docs_uncounted BEFORE DELETE ON search_docs FOR EACH ROW
WHEN (((OLD.doc >> 8) + (OLD.doc >> 33)) % 17 = 0)
EXECUTE FUNCTION search_docs_uncounted();

-- Every look at the index reads all entries that are not merged into it yet. Four megabytes of them, which is the default, take
-- longer than the look itself.
ALTER INDEX search_docs_terms SET (gin_pending_list_limit = 128);
