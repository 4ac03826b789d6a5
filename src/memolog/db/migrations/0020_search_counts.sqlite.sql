-- How many of the counted documents contain a term, so that a search knows the common words of a resource without reading their
-- lists. One document in seventeen is counted. Roles alternate in a thread, so the number must not be even.
CREATE TABLE search_counts (
  scope_pk BIGINT NOT NULL,
  term TEXT NOT NULL,
  documents BIGINT NOT NULL,
  PRIMARY KEY (scope_pk, term)
) WITHOUT ROWID;

-- The terms of the counted documents, without the marks of their frequency.
CREATE VIEW search_counted AS
SELECT d.doc, d.scope_pk, given.value AS term
FROM search_docs d, json_each('["' || replace(substr(d.terms, 2, length(d.terms) - 2), ''' ''', '","') || '"]') AS given
WHERE ((d.doc >> 8) + (d.doc >> 33)) % 17 = 0 AND substr(given.value, -1) <> '^';

INSERT INTO search_counts (scope_pk, term, documents)
SELECT scope_pk, term, COUNT(*) FROM search_counted GROUP BY scope_pk, term;

CREATE TRIGGER search_docs_counted AFTER INSERT ON search_docs
WHEN ((NEW.doc >> 8) + (NEW.doc >> 33)) % 17 = 0
BEGIN
  INSERT INTO search_counts (scope_pk, term, documents) SELECT scope_pk, term, 1 FROM search_counted WHERE doc = NEW.doc
  ON CONFLICT (scope_pk, term) DO UPDATE SET documents = documents + 1;
END;

CREATE TRIGGER search_docs_uncounted BEFORE DELETE ON search_docs
WHEN ((OLD.doc >> 8) + (OLD.doc >> 33)) % 17 = 0
BEGIN
  UPDATE search_counts SET documents = documents - 1
  WHERE scope_pk = OLD.scope_pk AND term IN (SELECT term FROM search_counted WHERE doc = OLD.doc);
  DELETE FROM search_counts
  WHERE scope_pk = OLD.scope_pk AND documents <= 0 AND term IN (SELECT term FROM search_counted WHERE doc = OLD.doc);
END;
