-- What a running turn has saved and no model has answered yet: the first such message, and the process that runs the turn.
-- Rows come with what is said and go with the reply, with the end of the turn, or with their process.
CREATE TABLE unseen (
  thread_pk BIGINT NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
  turn TEXT NOT NULL CHECK (turn <> ''),
  first_seq BIGINT NOT NULL CHECK (first_seq > 0),
  owner TEXT NOT NULL CHECK (owner <> ''),
  PRIMARY KEY (thread_pk, turn)
);
