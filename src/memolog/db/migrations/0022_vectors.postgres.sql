-- Vectors of messages and observations, for the search by meaning. Without an embedder all of these tables are empty.
--
-- The place of a vector is the key of its text in the index without length and class: (thread << 25) + seq of a message, and
-- -2 * pk of an observation. An index that is built again keeps the vectors, because the texts have not changed.

-- The embedders that were used. The one that was chosen last replaces the others when its vectors are complete. `filled` is the
-- last document whose vector was wanted when the embedder was new; NULL when that is done. One process at a time makes vectors.
CREATE TABLE search_embedders (
  pk {lasting_identity},
  name TEXT NOT NULL,
  dimension BIGINT NOT NULL,
  chosen BIGINT NOT NULL,
  filled BIGINT,
  maker TEXT,
  made_until BIGINT NOT NULL DEFAULT 0,
  UNIQUE (name, dimension)
);

-- The vectors of a resource by one embedder. `last` is the number of its newest vector.
CREATE TABLE search_vector_sets (
  pk {lasting_identity},
  embedder_pk BIGINT NOT NULL,
  resource TEXT NOT NULL,
  last BIGINT NOT NULL,
  UNIQUE (resource, embedder_pk)
);

-- The key is (set << 32) + number, so that the vectors of a resource are together, and new ones are after those already read.
-- A vector is its bytes times the scale.
CREATE TABLE search_vectors (
  pk BIGINT PRIMARY KEY,
  place BIGINT NOT NULL,
  scale DOUBLE PRECISION NOT NULL,
  vector BYTEA NOT NULL
);
CREATE INDEX search_vectors_place ON search_vectors (place);

-- The documents of the index without a vector.
CREATE TABLE search_vector_queue (
  pk {lasting_identity},
  embedder_pk BIGINT NOT NULL,
  scope_pk BIGINT NOT NULL,
  doc BIGINT NOT NULL,
  UNIQUE (doc, embedder_pk)
);
CREATE INDEX search_vector_queue_scope ON search_vector_queue (embedder_pk, scope_pk);

CREATE FUNCTION search_vector_wanted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO search_vector_queue (embedder_pk, scope_pk, doc)
  SELECT e.pk, NEW.scope_pk, NEW.doc FROM search_embedders e
  WHERE NOT EXISTS (SELECT 1 FROM search_vectors v JOIN search_vector_sets s ON s.pk = v.pk >> 32
    WHERE v.place = CASE WHEN NEW.doc > 0 THEN NEW.doc >> 8 ELSE -(-NEW.doc >> 8) END AND s.embedder_pk = e.pk)
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER search_vector_wanted AFTER INSERT ON search_docs FOR EACH ROW
WHEN (NEW.source <> 'task')
EXECUTE FUNCTION search_vector_wanted();

CREATE FUNCTION search_vector_unwanted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM search_vector_queue WHERE doc = OLD.doc;
  RETURN NULL;
END $$;
CREATE TRIGGER search_vector_unwanted AFTER DELETE ON search_docs FOR EACH ROW
EXECUTE FUNCTION search_vector_unwanted();

-- The vector of a text that is changed, withdrawn or forgotten goes in the same transaction.
CREATE FUNCTION search_vector_message_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM search_vectors WHERE place = (NEW.thread_pk << 25) + NEW.seq;
  RETURN NULL;
END $$;
CREATE TRIGGER search_vector_message_changed AFTER UPDATE OF state, level, search, parts ON messages FOR EACH ROW
EXECUTE FUNCTION search_vector_message_changed();

CREATE FUNCTION search_vector_message_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM search_vectors WHERE place = (OLD.thread_pk << 25) + OLD.seq;
  RETURN NULL;
END $$;
CREATE TRIGGER search_vector_message_gone AFTER DELETE ON messages FOR EACH ROW
EXECUTE FUNCTION search_vector_message_gone();

CREATE FUNCTION search_vector_observation_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM search_vectors WHERE place = -2 * OLD.pk;
  RETURN NULL;
END $$;
CREATE TRIGGER search_vector_observation_changed AFTER UPDATE OF state, text, verbatim, files ON observations FOR EACH ROW
WHEN (NEW.state NOT IN ('active', 'superseded', 'dropped') OR NEW.text IS DISTINCT FROM OLD.text
  OR NEW.verbatim IS DISTINCT FROM OLD.verbatim OR NEW.files IS DISTINCT FROM OLD.files)
EXECUTE FUNCTION search_vector_observation_gone();
CREATE TRIGGER search_vector_observation_gone AFTER DELETE ON observations FOR EACH ROW
EXECUTE FUNCTION search_vector_observation_gone();
