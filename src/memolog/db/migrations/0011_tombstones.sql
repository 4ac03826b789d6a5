-- What was forgotten, as keyed hashes: nothing of it can be read from them, and a transcript, a client or an older export that
-- still has it is recognised. A row of kind 'key' holds the key itself, which travels with an export as the hashes do.
CREATE TABLE tombstones (
  pk {identity},
  resource TEXT NOT NULL CHECK (resource <> ''),
  kind TEXT NOT NULL CHECK (kind IN ('key', 'resource', 'thread', 'id', 'words')),
  value TEXT NOT NULL CHECK (value <> ''),
  said_at BIGINT NOT NULL,
  forgotten_at BIGINT NOT NULL,
  UNIQUE (resource, kind, value, said_at)
);
