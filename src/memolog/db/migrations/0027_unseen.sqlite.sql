-- Each turn writes and deletes a row here. Without row numbers, the table and its index are one.
CREATE TABLE new_unseen (
  thread_pk BIGINT NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
  turn TEXT NOT NULL CHECK (turn <> ''),
  first_seq BIGINT NOT NULL CHECK (first_seq > 0),
  owner TEXT NOT NULL CHECK (owner <> ''),
  PRIMARY KEY (thread_pk, turn)
) WITHOUT ROWID;
INSERT INTO new_unseen (thread_pk, turn, first_seq, owner) SELECT thread_pk, turn, first_seq, owner FROM unseen;
DROP TABLE unseen;
ALTER TABLE new_unseen RENAME TO unseen;
