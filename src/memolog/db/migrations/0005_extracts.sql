-- Values that an application has drawn from a thread. Their order is that of the messages they come from, so the number of a
-- version follows from the rows and two runs that end together cannot collide.
CREATE TABLE extracts (
  pk {identity},
  thread_pk BIGINT NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
  first_seq BIGINT NOT NULL CHECK (first_seq > 0),
  last_seq BIGINT NOT NULL,
  at BIGINT NOT NULL,
  key TEXT NOT NULL CHECK (key <> ''),
  who TEXT NOT NULL,
  run TEXT NOT NULL,
  value TEXT NOT NULL,
  CHECK (first_seq <= last_seq)
);
CREATE INDEX extracts_thread ON extracts (thread_pk, key, last_seq);

-- A budget for the whole database is read before every call.
CREATE INDEX usage_spent ON usage (kind, cost);
