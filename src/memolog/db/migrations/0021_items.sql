-- JSON objects that programs store for a resource, such as the items of a LangGraph store. A namespace is a JSON list of labels.
CREATE TABLE items (
  pk {identity},
  resource TEXT NOT NULL CHECK (resource <> ''),
  namespace TEXT NOT NULL,
  key TEXT NOT NULL CHECK (key <> ''),
  value TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX items_key ON items (resource, namespace, key);
