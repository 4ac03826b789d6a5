-- The search by meaning uses the extension pgvector if somebody has installed it in this database. Memolog never installs it. Without
-- it the vectors are compared in the process, as on SQLite.
--
-- What needs the extension is created when the extension is there, by search_mirror. It is one column: the bytes of each vector, as a
-- value that pgvector can compare. Whole numbers up to 127 are exact in it. If the extension is dropped with CASCADE, the column, its
-- trigger and its index go too, and the functions below return that there is nothing.

-- Returns the schema of pgvector, with a half-precision type. NULL if it is not installed, or older than 0.7.
CREATE FUNCTION search_pgvector() RETURNS TEXT LANGUAGE sql STABLE AS $$
  SELECT n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
  JOIN pg_type t ON t.typnamespace = n.oid AND t.typname = 'halfvec'
  WHERE e.extname = 'vector'
$$;

CREATE FUNCTION search_has_mirror() RETURNS BOOLEAN LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT 1 FROM pg_attribute
    WHERE attrelid = 'search_vectors'::regclass AND attname = 'mirror' AND NOT attisdropped)
$$;

-- A row must fit into a page of 8 kB, because values outside of the row are slow to read. So longer vectors get no mirror.
CREATE FUNCTION search_most_mirrored() RETURNS INTEGER LANGUAGE sql IMMUTABLE AS 'SELECT 3500';

CREATE FUNCTION search_numbers(bytes BYTEA) RETURNS REAL[] LANGUAGE sql IMMUTABLE AS $$
  SELECT array_agg((CASE WHEN byte > 127 THEN byte - 256 ELSE byte END)::real ORDER BY at)
  FROM (SELECT at, get_byte(bytes, at) AS byte FROM generate_series(0, length(bytes) - 1) AS at) AS each_one
$$;

CREATE FUNCTION search_set_mirror() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.mirror := CASE WHEN length(NEW.vector) BETWEEN 1 AND search_most_mirrored() THEN search_numbers(NEW.vector) END;
  RETURN NEW;
END $$;

-- Mirrors some vectors of the time before the extension was installed, and returns how many. At first it creates the column. It
-- returns 0 if there is no extension, if the user may not change the table, or if the table is in use for long.
CREATE FUNCTION search_mirror(most INTEGER) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
  extension TEXT := search_pgvector();
  done BIGINT := 0;
BEGIN
  IF extension IS NULL THEN
    RETURN 0;
  END IF;
  IF NOT search_has_mirror() THEN
    BEGIN
      PERFORM set_config('lock_timeout', '1s', true);
      LOCK TABLE search_vectors IN ACCESS EXCLUSIVE MODE;
      IF NOT search_has_mirror() THEN
        EXECUTE format('ALTER TABLE search_vectors ADD COLUMN mirror %I.halfvec', extension);
        ALTER TABLE search_vectors ALTER COLUMN mirror SET STORAGE PLAIN;
        CREATE INDEX search_vectors_unmirrored ON search_vectors (pk) WHERE mirror IS NULL AND length(vector) <= 3500;
        CREATE TRIGGER search_set_mirror BEFORE INSERT OR UPDATE OF vector, mirror ON search_vectors
        FOR EACH ROW EXECUTE FUNCTION search_set_mirror();
      END IF;
    EXCEPTION WHEN insufficient_privilege OR lock_not_available THEN
      RETURN 0;
    END;
  END IF;
  EXECUTE 'UPDATE search_vectors SET mirror = NULL WHERE pk IN (SELECT pk FROM search_vectors
    WHERE mirror IS NULL AND length(vector) <= 3500 ORDER BY pk LIMIT $1 FOR UPDATE SKIP LOCKED)' USING most;
  GET DIAGNOSTICS done = ROW_COUNT;
  RETURN done;
END $$;

-- Returns whether all vectors of a set have a mirror.
CREATE FUNCTION search_is_mirrored(set_pk BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
DECLARE
  is_whole BOOLEAN := search_pgvector() IS NOT NULL AND search_has_mirror();
BEGIN
  IF is_whole THEN
    EXECUTE 'SELECT e.dimension <= search_most_mirrored() AND NOT EXISTS (SELECT 1 FROM search_vectors
        WHERE mirror IS NULL AND length(vector) <= 3500 AND pk BETWEEN $1 << 32 AND ($1 + 1) << 32)
      FROM search_vector_sets s JOIN search_embedders e ON e.pk = s.embedder_pk WHERE s.pk = $1' INTO is_whole USING set_pk;
  END IF;
  RETURN COALESCE(is_whole, FALSE);
END $$;

-- Returns the vectors of a set that are nearest to a query. All are compared. `threads`, if it is not empty, restricts messages.
CREATE FUNCTION search_nearest(set_pk BIGINT, query REAL[], most INTEGER, lowest DOUBLE PRECISION, threads BIGINT[])
RETURNS TABLE (pk BIGINT, place BIGINT, similarity DOUBLE PRECISION) LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY EXECUTE format(
    'SELECT pk, place, similarity FROM (
      SELECT pk, place, CASE WHEN length(vector) = cardinality($2)
        THEN (mirror OPERATOR(%1$I.<#>) $2::%1$I.halfvec) * -scale ELSE -1 END AS similarity
      FROM search_vectors WHERE pk BETWEEN $1 << 32 AND ($1 + 1) << 32
        AND (cardinality($5) = 0 OR place < 0 OR place >> 25 = ANY($5))) AS found
    WHERE similarity >= $4 ORDER BY similarity DESC, place DESC LIMIT $3', search_pgvector())
  USING set_pk, query, most, lowest, threads;
END $$;
