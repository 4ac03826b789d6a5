-- The table of messages once more, cheaper to write and to scan. For a list of more than two constants SQLite builds a small table
-- with every row that it checks, which took as long as writing the row, so no list has more than two now. The counts of files
-- stand before the texts, because a scan over columns behind a long text walks through it.

-- A trigger that names a missing table would stop the renaming. Without the rows that refer to messages, nothing else is deleted.
DROP TRIGGER sequences_never_go_back;
CREATE TABLE kept_task_messages AS SELECT * FROM task_messages;
DELETE FROM task_messages;

CREATE TABLE new_messages (
  pk INTEGER PRIMARY KEY,
  thread_pk BIGINT NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
  seq BIGINT NOT NULL CHECK (seq > 0),
  id TEXT NOT NULL CHECK (id <> ''),
  continuation BIGINT NOT NULL DEFAULT 0 CHECK (continuation >= 0),
  role TEXT NOT NULL CHECK (role IN ('user', 'assistant') OR role IN ('tool', 'system')),
  tokens BIGINT NOT NULL CHECK (tokens >= 0),
  created_at BIGINT NOT NULL,
  state TEXT NOT NULL DEFAULT 'live' CHECK (state = 'live' OR state IN ('withdrawn', 'forgotten')),
  own BIGINT NOT NULL DEFAULT 0 CHECK (own IN (0, 1)),
  level BIGINT NOT NULL DEFAULT 0 CHECK (level BETWEEN 0 AND 2),
  pruned BIGINT NOT NULL DEFAULT 0 CHECK (pruned IN (0, 1)),
  task_pk BIGINT REFERENCES tasks (pk) ON DELETE SET NULL,
  compaction_pk BIGINT REFERENCES compactions (pk) ON DELETE SET NULL,
  file_tokens BIGINT CHECK (file_tokens >= 0),
  reported_file_tokens BIGINT CHECK (reported_file_tokens >= 0),
  turn TEXT,
  zone TEXT,
  speaker TEXT,
  pairs TEXT,
  metadata TEXT NOT NULL DEFAULT '{}',
  parts TEXT NOT NULL,
  injection TEXT,
  search TEXT,
  UNIQUE (thread_pk, seq),
  UNIQUE (thread_pk, id, continuation),
  CHECK (state <> 'forgotten' OR parts = '[]')
);
INSERT INTO new_messages (pk, thread_pk, seq, id, continuation, role, tokens, created_at, state, own, level, pruned, task_pk,
  compaction_pk, file_tokens, reported_file_tokens, turn, zone, speaker, pairs, metadata, parts, injection, search)
SELECT pk, thread_pk, seq, id, continuation, role, tokens, created_at, state, own, level, pruned, task_pk,
  compaction_pk, file_tokens, reported_file_tokens, turn, zone, speaker, pairs, metadata, parts, injection, search
FROM messages ORDER BY pk;
DROP TABLE messages;
ALTER TABLE new_messages RENAME TO messages;
CREATE INDEX messages_task ON messages (task_pk) WHERE task_pk IS NOT NULL;
CREATE INDEX messages_removed ON messages (thread_pk, seq) WHERE state <> 'live';

INSERT INTO task_messages SELECT * FROM kept_task_messages;
DROP TABLE kept_task_messages;

-- The triggers as in 0002 and 0003.
CREATE TRIGGER sequences_never_go_back BEFORE UPDATE OF last_seq ON threads
WHEN NEW.last_seq < OLD.last_seq AND NEW.last_seq < (SELECT COALESCE(MAX(seq), 0) FROM messages WHERE thread_pk = OLD.pk)
BEGIN
  SELECT RAISE(ABORT, 'sequence numbers never go back');
END;

CREATE TRIGGER messages_never_change BEFORE UPDATE ON messages
WHEN NEW.thread_pk <> OLD.thread_pk OR NEW.seq <> OLD.seq OR NEW.id <> OLD.id OR NEW.continuation <> OLD.continuation
  OR NEW.role <> OLD.role OR NEW.created_at <> OLD.created_at OR NEW.tokens <> OLD.tokens OR NEW.own <> OLD.own
  OR (OLD.state = 'forgotten' AND (NEW.state <> 'forgotten' OR NEW.injection IS NOT NULL OR NEW.search IS NOT NULL))
  OR (NEW.parts <> OLD.parts AND NEW.state <> 'forgotten' AND NEW.pruned = 0)
BEGIN
  SELECT RAISE(ABORT, 'messages never change');
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
