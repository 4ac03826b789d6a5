-- The term may also be two terms with AND between them, as in SQLite's index. GIN compares their lists before it looks at any row.
CREATE OR REPLACE FUNCTION search_index(term text) RETURNS TABLE (rowid BIGINT) LANGUAGE sql STABLE SET enable_seqscan = off AS $$
  SELECT doc FROM search_docs WHERE terms @@ replace(quote_literal(btrim(term, '"')), '" AND "', ''' & ''')::tsquery
$$;
