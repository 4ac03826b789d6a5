-- What a rewind took out of a thread: the rows stay as tombstones, and can be appended again.
CREATE TABLE branches (
  pk {identity},
  thread_pk BIGINT NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
  number BIGINT NOT NULL CHECK (number > 0),
  kept_to BIGINT NOT NULL CHECK (kept_to >= 0),
  created_at BIGINT NOT NULL,
  restored_at BIGINT,
  live TEXT NOT NULL,
  UNIQUE (thread_pk, number)
);
