-- Without an embedder this trigger costs a third of the time that it took before.
CREATE OR REPLACE FUNCTION search_vector_wanted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM search_embedders) THEN
    INSERT INTO search_vector_queue (embedder_pk, scope_pk, doc)
    SELECT e.pk, NEW.scope_pk, NEW.doc FROM search_embedders e
    WHERE NOT EXISTS (SELECT 1 FROM search_vectors v JOIN search_vector_sets s ON s.pk = v.pk >> 32
      WHERE v.place = CASE WHEN NEW.doc > 0 THEN NEW.doc >> 8 ELSE -(-NEW.doc >> 8) END AND s.embedder_pk = e.pk)
    ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;
