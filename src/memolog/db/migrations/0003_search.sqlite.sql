-- The search index. What is gone from the tables is gone from here in the same transaction, by triggers; what is new waits to be
-- analysed, and a search analyses it before it answers. search/keys.py says what the number of a document is made of.

ALTER TABLE threads ADD COLUMN indexed_seq BIGINT NOT NULL DEFAULT 0;

CREATE TABLE search_scopes (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,
  resource TEXT NOT NULL UNIQUE
);

CREATE TABLE search_docs (
  doc INTEGER PRIMARY KEY,
  scope_pk BIGINT NOT NULL,
  thread_pk BIGINT,
  source_pk BIGINT NOT NULL,
  source TEXT NOT NULL CHECK (source IN ('raw', 'compacted', 'observation', 'reflection', 'task')),
  kind BIGINT NOT NULL,
  at BIGINT NOT NULL,
  length BIGINT NOT NULL,
  traits BIGINT NOT NULL,
  speaker TEXT,
  terms TEXT NOT NULL
);
CREATE INDEX search_docs_place ON search_docs (doc >> 8);

-- Every term begins with the key of its scope, so that one resource never reads another's lists.
CREATE VIRTUAL TABLE search_index USING fts5 (
  terms, content = 'search_docs', content_rowid = 'doc', columnsize = 0, detail = none,
  tokenize = "ascii tokenchars '=:._-/@#+^'"
);

CREATE TABLE search_stats (
  scope_pk BIGINT NOT NULL,
  kind BIGINT NOT NULL,
  documents BIGINT NOT NULL,
  length BIGINT NOT NULL,
  PRIMARY KEY (scope_pk, kind)
);

CREATE TABLE search_threads (
  thread_pk INTEGER PRIMARY KEY REFERENCES threads (pk) ON DELETE CASCADE,
  user_length BIGINT NOT NULL,
  other_length BIGINT NOT NULL
);

-- The words of a scope, for prefixes; their trigrams, for what stands inside a word.
CREATE TABLE search_words (
  scope_pk BIGINT NOT NULL,
  word TEXT NOT NULL,
  PRIMARY KEY (scope_pk, word)
) WITHOUT ROWID;
CREATE TABLE search_grams (
  scope_pk BIGINT NOT NULL,
  gram TEXT NOT NULL,
  word TEXT NOT NULL,
  PRIMARY KEY (scope_pk, gram, word)
) WITHOUT ROWID;

CREATE TABLE search_speakers (
  scope_pk BIGINT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (scope_pk, name)
) WITHOUT ROWID;

-- Threads with messages that are not indexed yet, and single rows that changed since they were.
CREATE TABLE search_behind (
  thread_pk INTEGER PRIMARY KEY REFERENCES threads (pk) ON DELETE CASCADE,
  resource TEXT NOT NULL
);
CREATE INDEX search_behind_resource ON search_behind (resource);
CREATE TABLE search_queue (
  kind TEXT NOT NULL CHECK (kind IN ('message', 'observation', 'task')),
  source_pk BIGINT NOT NULL,
  resource TEXT NOT NULL,
  version BIGINT NOT NULL DEFAULT 1,
  PRIMARY KEY (kind, source_pk)
) WITHOUT ROWID;
CREATE INDEX search_queue_resource ON search_queue (resource);

CREATE TRIGGER search_docs_added AFTER INSERT ON search_docs
BEGIN
  INSERT INTO search_index (rowid, terms) VALUES (NEW.doc, NEW.terms);
  INSERT INTO search_stats (scope_pk, kind, documents, length) VALUES (NEW.scope_pk, NEW.kind, 1, NEW.length)
  ON CONFLICT (scope_pk, kind) DO UPDATE SET documents = documents + 1, length = length + excluded.length;
  INSERT INTO search_threads (thread_pk, user_length, other_length)
  SELECT NEW.thread_pk, NEW.length * (NEW.kind = 0), NEW.length * (NEW.kind <> 0) WHERE NEW.doc > 0
  ON CONFLICT (thread_pk) DO UPDATE SET user_length = user_length + excluded.user_length,
    other_length = other_length + excluded.other_length;
END;

CREATE TRIGGER search_docs_gone AFTER DELETE ON search_docs
BEGIN
  INSERT INTO search_index (search_index, rowid, terms) VALUES ('delete', OLD.doc, OLD.terms);
  UPDATE search_stats SET documents = documents - 1, length = length - OLD.length
  WHERE scope_pk = OLD.scope_pk AND kind = OLD.kind;
  UPDATE search_threads SET user_length = user_length - OLD.length * (OLD.kind = 0),
    other_length = other_length - OLD.length * (OLD.kind <> 0)
  WHERE OLD.doc > 0 AND thread_pk = OLD.thread_pk;
END;

CREATE TRIGGER search_thread_new AFTER INSERT ON threads
BEGIN
  INSERT INTO search_behind (thread_pk, resource) VALUES (NEW.pk, NEW.resource);
END;

-- Only the first message after a search costs a row here.
CREATE TRIGGER search_thread_grown AFTER UPDATE OF last_seq ON threads
WHEN OLD.last_seq <= OLD.indexed_seq AND NEW.last_seq > NEW.indexed_seq
BEGIN
  INSERT INTO search_behind (thread_pk, resource) VALUES (NEW.pk, NEW.resource) ON CONFLICT (thread_pk) DO NOTHING;
END;

CREATE TRIGGER search_message_changed AFTER UPDATE OF state, level, search, parts ON messages
BEGIN
  DELETE FROM search_docs
  WHERE doc BETWEEN (NEW.thread_pk << 33) + (NEW.seq << 8) AND (NEW.thread_pk << 33) + (NEW.seq << 8) + 255;
  INSERT INTO search_queue (kind, source_pk, resource)
  SELECT 'message', NEW.pk, t.resource FROM threads t WHERE t.pk = NEW.thread_pk
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = version + 1;
END;

CREATE TRIGGER search_message_gone AFTER DELETE ON messages
BEGIN
  DELETE FROM search_docs
  WHERE doc BETWEEN (OLD.thread_pk << 33) + (OLD.seq << 8) AND (OLD.thread_pk << 33) + (OLD.seq << 8) + 255;
  DELETE FROM search_queue WHERE kind = 'message' AND source_pk = OLD.pk;
END;

CREATE TRIGGER search_observation_new AFTER INSERT ON observations
BEGIN
  INSERT INTO search_queue (kind, source_pk, resource)
  SELECT 'observation', NEW.pk, l.resource FROM groups g JOIN logs l ON l.pk = g.log_pk WHERE g.pk = NEW.group_pk
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = version + 1;
END;

CREATE TRIGGER search_observation_changed AFTER UPDATE OF state, text, verbatim, files ON observations
BEGIN
  DELETE FROM search_docs WHERE doc BETWEEN -(NEW.pk << 9) - 255 AND -(NEW.pk << 9);
  INSERT INTO search_queue (kind, source_pk, resource)
  SELECT 'observation', NEW.pk, l.resource FROM groups g JOIN logs l ON l.pk = g.log_pk WHERE g.pk = NEW.group_pk
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = version + 1;
END;

CREATE TRIGGER search_observation_gone AFTER DELETE ON observations
BEGIN
  DELETE FROM search_docs WHERE doc BETWEEN -(OLD.pk << 9) - 255 AND -(OLD.pk << 9);
  DELETE FROM search_queue WHERE kind = 'observation' AND source_pk = OLD.pk;
END;

CREATE TRIGGER search_task_new AFTER INSERT ON tasks
BEGIN
  INSERT INTO search_queue (kind, source_pk, resource) VALUES ('task', NEW.pk, NEW.resource)
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = version + 1;
END;

CREATE TRIGGER search_task_changed AFTER UPDATE OF title, description, summary ON tasks
BEGIN
  DELETE FROM search_docs WHERE doc BETWEEN -(NEW.pk << 9) - 511 AND -(NEW.pk << 9) - 256;
  INSERT INTO search_queue (kind, source_pk, resource) VALUES ('task', NEW.pk, NEW.resource)
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = version + 1;
END;

CREATE TRIGGER search_task_gone AFTER DELETE ON tasks
BEGIN
  DELETE FROM search_docs WHERE doc BETWEEN -(OLD.pk << 9) - 511 AND -(OLD.pk << 9) - 256;
  DELETE FROM search_queue WHERE kind = 'task' AND source_pk = OLD.pk;
END;

CREATE TRIGGER search_label_new AFTER INSERT ON task_labels
BEGIN
  INSERT INTO search_queue (kind, source_pk, resource)
  SELECT 'task', k.pk, k.resource FROM tasks k WHERE k.pk = NEW.task_pk
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = version + 1;
END;

CREATE TRIGGER search_label_gone AFTER DELETE ON task_labels
BEGIN
  INSERT INTO search_queue (kind, source_pk, resource)
  SELECT 'task', k.pk, k.resource FROM tasks k WHERE k.pk = OLD.task_pk
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = version + 1;
END;

INSERT INTO search_behind (thread_pk, resource) SELECT pk, resource FROM threads;
INSERT INTO search_queue (kind, source_pk, resource)
SELECT 'observation', o.pk, l.resource FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk;
INSERT INTO search_queue (kind, source_pk, resource) SELECT 'task', pk, resource FROM tasks;
