-- Every table of Memolog, in the words that both engines share. Keys are the one thing they spell differently.
-- Moments are whole microseconds since 1970 in UTC, flags are 0 or 1, JSON is text, money is billionths of a dollar.
-- `pk` is internal and never leaves the store; `id` is what callers know. Where a process may hold a key while somebody
-- deletes its row, the key is a lasting one: it is never given again, so that it cannot come to mean another row.

CREATE TABLE tasks (
  pk {identity},
  resource TEXT NOT NULL CHECK (resource <> ''),
  id TEXT NOT NULL CHECK (id <> ''),
  handle TEXT NOT NULL CHECK (handle <> ''),
  status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'in_progress', 'closed')),
  priority BIGINT NOT NULL DEFAULT 2 CHECK (priority BETWEEN 0 AND 4),
  type TEXT NOT NULL DEFAULT 'task' CHECK (type IN ('bug', 'feature', 'task', 'epic', 'chore')),
  blocked BIGINT NOT NULL DEFAULT 0 CHECK (blocked IN (0, 1)),
  assignee TEXT,
  session TEXT,
  defer_until BIGINT,
  due BIGINT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  closed_at BIGINT,
  close_reason TEXT CHECK (close_reason IN ('completed', 'wontfix', 'duplicate')),
  level BIGINT NOT NULL DEFAULT 0 CHECK (level BETWEEN 0 AND 2),
  version BIGINT NOT NULL DEFAULT 1,
  title TEXT NOT NULL CHECK (title <> ''),
  summary TEXT,
  metadata TEXT NOT NULL DEFAULT '{}',
  description TEXT NOT NULL DEFAULT '',
  archive TEXT,
  UNIQUE (resource, id),
  UNIQUE (resource, handle),
  CHECK ((status = 'closed') = (closed_at IS NOT NULL)),
  CHECK (status <> 'closed' OR close_reason IS NOT NULL)
);
CREATE INDEX tasks_ready ON tasks (resource, status, blocked, priority, created_at);

CREATE TABLE task_labels (
  task_pk BIGINT NOT NULL REFERENCES tasks (pk) ON DELETE CASCADE,
  label TEXT NOT NULL CHECK (label <> ''),
  PRIMARY KEY (task_pk, label)
);

CREATE TABLE task_links (
  source_pk BIGINT NOT NULL REFERENCES tasks (pk) ON DELETE CASCADE,
  target_pk BIGINT NOT NULL REFERENCES tasks (pk) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('blocks', 'parent-child', 'related', 'discovered-from')),
  created_at BIGINT NOT NULL,
  PRIMARY KEY (source_pk, target_pk, kind),
  CHECK (source_pk <> target_pk)
);
CREATE INDEX task_links_target ON task_links (target_pk, kind);

CREATE TABLE task_changes (
  pk {identity},
  task_pk BIGINT NOT NULL REFERENCES tasks (pk) ON DELETE CASCADE,
  at BIGINT NOT NULL,
  who TEXT NOT NULL,
  change TEXT NOT NULL
);
CREATE INDEX task_changes_task ON task_changes (task_pk, pk);

CREATE TABLE threads (
  pk {lasting_identity},
  resource TEXT NOT NULL CHECK (resource <> ''),
  id TEXT NOT NULL CHECK (id <> ''),
  last_seq BIGINT NOT NULL DEFAULT 0 CHECK (last_seq >= 0),
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  last_request_at BIGINT,
  last_model TEXT,
  active_task_pk BIGINT REFERENCES tasks (pk) ON DELETE SET NULL,
  active_session TEXT,
  hinted_at BIGINT,
  hinted_seq BIGINT NOT NULL DEFAULT 0,
  cloned_from TEXT,
  title TEXT,
  current_task TEXT,
  suggested_response TEXT,
  hinted_title TEXT,
  overrides TEXT NOT NULL DEFAULT '{}',
  metadata TEXT NOT NULL DEFAULT '{}',
  UNIQUE (resource, id)
);
CREATE INDEX threads_active_task ON threads (active_task_pk) WHERE active_task_pk IS NOT NULL;

CREATE TABLE compactions (
  pk {identity},
  id TEXT NOT NULL UNIQUE,
  thread_pk BIGINT NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
  first_seq BIGINT NOT NULL CHECK (first_seq > 0),
  last_seq BIGINT NOT NULL,
  level BIGINT NOT NULL CHECK (level IN (1, 2)),
  created_at BIGINT NOT NULL,
  restored_at BIGINT,
  summary TEXT NOT NULL,
  before TEXT NOT NULL,
  CHECK (first_seq <= last_seq)
);
CREATE INDEX compactions_thread ON compactions (thread_pk, first_seq);

-- The large texts stand last: a scan over the small columns then never walks through a long row.
CREATE TABLE messages (
  pk {identity},
  thread_pk BIGINT NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
  seq BIGINT NOT NULL CHECK (seq > 0),
  id TEXT NOT NULL CHECK (id <> ''),
  continuation BIGINT NOT NULL DEFAULT 0 CHECK (continuation >= 0),
  role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
  tokens BIGINT NOT NULL CHECK (tokens >= 0),
  created_at BIGINT NOT NULL,
  state TEXT NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'withdrawn', 'forgotten')),
  own BIGINT NOT NULL DEFAULT 0 CHECK (own IN (0, 1)),
  level BIGINT NOT NULL DEFAULT 0 CHECK (level BETWEEN 0 AND 2),
  pruned BIGINT NOT NULL DEFAULT 0 CHECK (pruned IN (0, 1)),
  task_pk BIGINT REFERENCES tasks (pk) ON DELETE SET NULL,
  compaction_pk BIGINT REFERENCES compactions (pk) ON DELETE SET NULL,
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
CREATE INDEX messages_task ON messages (task_pk) WHERE task_pk IS NOT NULL;

CREATE TABLE task_messages (
  task_pk BIGINT NOT NULL REFERENCES tasks (pk) ON DELETE CASCADE,
  thread_pk BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('output', 'reference', 'created-from')),
  PRIMARY KEY (task_pk, thread_pk, seq, kind),
  FOREIGN KEY (thread_pk, seq) REFERENCES messages (thread_pk, seq) ON DELETE CASCADE
);
CREATE INDEX task_messages_message ON task_messages (thread_pk, seq);

-- One log a thread, or one (without a thread) that a resource's threads share.
CREATE TABLE logs (
  pk {lasting_identity},
  id TEXT NOT NULL UNIQUE,
  resource TEXT NOT NULL CHECK (resource <> ''),
  thread_pk BIGINT REFERENCES threads (pk) ON DELETE CASCADE,
  version BIGINT NOT NULL DEFAULT 0,
  generation BIGINT NOT NULL DEFAULT 0 CHECK (generation >= 0),
  next_handle BIGINT NOT NULL DEFAULT 1,
  next_alias BIGINT NOT NULL DEFAULT 1,
  created_at BIGINT NOT NULL,
  failures BIGINT NOT NULL DEFAULT 0 CHECK (failures >= 0),
  retry_at BIGINT,
  last_success_at BIGINT,
  last_error_at BIGINT,
  last_error TEXT,
  metadata TEXT NOT NULL DEFAULT '{}'
);
CREATE UNIQUE INDEX logs_scope ON logs (resource, (COALESCE(thread_pk, 0)));

CREATE TABLE cursors (
  log_pk BIGINT NOT NULL REFERENCES logs (pk) ON DELETE CASCADE,
  thread_pk BIGINT NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
  seq BIGINT NOT NULL DEFAULT 0 CHECK (seq >= 0),
  alias BIGINT NOT NULL,
  PRIMARY KEY (log_pk, thread_pk),
  UNIQUE (log_pk, alias)
);

-- A run's span and inputs are fixed when it starts, so that recovery repeats this very row.
CREATE TABLE runs (
  pk {identity},
  id TEXT NOT NULL UNIQUE,
  log_pk BIGINT NOT NULL REFERENCES logs (pk) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('observe', 'reflect')),
  status TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'done', 'failed', 'abandoned')),
  thread_pk BIGINT REFERENCES threads (pk) ON DELETE CASCADE,
  first_seq BIGINT CHECK (first_seq > 0),
  last_seq BIGINT,
  owner TEXT NOT NULL,
  fence BIGINT NOT NULL DEFAULT 1 CHECK (fence > 0),
  lease_until BIGINT NOT NULL,
  heartbeat_at BIGINT NOT NULL,
  attempt BIGINT NOT NULL DEFAULT 1 CHECK (attempt > 0),
  started_at BIGINT NOT NULL,
  finished_at BIGINT,
  retry_at BIGINT,
  model TEXT,
  prompt_version TEXT,
  input_tokens BIGINT NOT NULL DEFAULT 0,
  output_tokens BIGINT NOT NULL DEFAULT 0,
  cost BIGINT NOT NULL DEFAULT 0,
  error TEXT,
  inputs TEXT NOT NULL DEFAULT '{}',
  CHECK (first_seq <= last_seq),
  CHECK (kind <> 'observe' OR (thread_pk IS NOT NULL AND first_seq IS NOT NULL AND last_seq IS NOT NULL)),
  CHECK ((status IN ('done', 'abandoned')) <= (finished_at IS NOT NULL))
);
CREATE INDEX runs_log ON runs (log_pk, status);
-- One span has one run: a second over it is refused while the first may still succeed.
CREATE UNIQUE INDEX runs_span ON runs (log_pk, thread_pk, first_seq)
  WHERE kind = 'observe' AND status IN ('running', 'failed');
CREATE UNIQUE INDEX runs_reflection ON runs (log_pk) WHERE kind = 'reflect' AND status IN ('running', 'failed');

CREATE TABLE run_prompts (
  run_pk BIGINT NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
  call BIGINT NOT NULL,
  prompt TEXT NOT NULL,
  reply TEXT,
  PRIMARY KEY (run_pk, call)
);

CREATE TABLE groups (
  pk {identity},
  id TEXT NOT NULL UNIQUE,
  log_pk BIGINT NOT NULL REFERENCES logs (pk) ON DELETE CASCADE,
  handle TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('observer', 'reflection', 'edit')),
  state TEXT NOT NULL DEFAULT 'buffered' CHECK (state IN ('buffered', 'active', 'covered', 'void')),
  thread_pk BIGINT REFERENCES threads (pk) ON DELETE CASCADE,
  first_seq BIGINT CHECK (first_seq > 0),
  last_seq BIGINT,
  run_pk BIGINT REFERENCES runs (pk) ON DELETE SET NULL,
  tokens BIGINT NOT NULL CHECK (tokens >= 0),
  observations BIGINT NOT NULL DEFAULT 0 CHECK (observations >= 0),
  first_at BIGINT,
  last_at BIGINT,
  created_at BIGINT NOT NULL,
  activated_at BIGINT,
  hints TEXT,
  text TEXT NOT NULL,
  UNIQUE (log_pk, handle),
  CHECK (first_seq <= last_seq),
  CHECK (kind <> 'observer' OR (thread_pk IS NOT NULL AND first_seq IS NOT NULL AND last_seq IS NOT NULL))
);
-- Spans of observer groups tile: no two begin, and no two end, at the same message.
CREATE UNIQUE INDEX groups_first ON groups (log_pk, thread_pk, first_seq) WHERE kind = 'observer' AND state <> 'void';
CREATE UNIQUE INDEX groups_last ON groups (log_pk, thread_pk, last_seq) WHERE kind = 'observer' AND state <> 'void';
CREATE INDEX groups_state ON groups (log_pk, state);

CREATE TABLE generations (
  log_pk BIGINT NOT NULL REFERENCES logs (pk) ON DELETE CASCADE,
  number BIGINT NOT NULL CHECK (number >= 0),
  kind TEXT NOT NULL CHECK (kind IN ('start', 'reflection', 'restore', 'edit', 'forget', 'compact', 'merge')),
  run_pk BIGINT REFERENCES runs (pk) ON DELETE SET NULL,
  created_at BIGINT NOT NULL,
  restored_from BIGINT,
  tokens_before BIGINT NOT NULL DEFAULT 0,
  tokens_after BIGINT NOT NULL DEFAULT 0,
  dropped TEXT NOT NULL DEFAULT '[]',
  working_memory TEXT,
  PRIMARY KEY (log_pk, number)
);

-- The groups of each generation, in order. The log is what the present generation lists.
CREATE TABLE log_entries (
  log_pk BIGINT NOT NULL,
  generation BIGINT NOT NULL,
  position BIGINT NOT NULL CHECK (position > 0),
  group_pk BIGINT NOT NULL REFERENCES groups (pk) ON DELETE CASCADE,
  added_at BIGINT NOT NULL,
  PRIMARY KEY (log_pk, generation, position),
  UNIQUE (log_pk, generation, group_pk),
  FOREIGN KEY (log_pk, generation) REFERENCES generations (log_pk, number) ON DELETE CASCADE
);
CREATE INDEX log_entries_group ON log_entries (group_pk);

CREATE TABLE observations (
  pk {identity},
  id TEXT NOT NULL UNIQUE,
  group_pk BIGINT NOT NULL REFERENCES groups (pk) ON DELETE CASCADE,
  ordinal BIGINT NOT NULL CHECK (ordinal > 0),
  parent BIGINT,
  priority TEXT NOT NULL CHECK (priority IN ('high', 'medium', 'low', 'done')),
  trust TEXT NOT NULL DEFAULT 'assistant' CHECK (trust IN ('tool', 'assistant', 'user')),
  grounded BIGINT NOT NULL DEFAULT 1 CHECK (grounded IN (0, 1)),
  state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'superseded', 'dropped', 'retracted', 'deleted')),
  tokens BIGINT NOT NULL DEFAULT 0 CHECK (tokens >= 0),
  said_at BIGINT,
  zone TEXT,
  about TEXT,
  category TEXT,
  text TEXT NOT NULL,
  verbatim TEXT,
  files TEXT NOT NULL DEFAULT '[]',
  metadata TEXT NOT NULL DEFAULT '{}',
  UNIQUE (group_pk, ordinal),
  CHECK (parent < ordinal)
);

CREATE TABLE observation_sources (
  observation_pk BIGINT NOT NULL REFERENCES observations (pk) ON DELETE CASCADE,
  thread_pk BIGINT NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
  first_seq BIGINT NOT NULL CHECK (first_seq > 0),
  last_seq BIGINT NOT NULL,
  PRIMARY KEY (observation_pk, thread_pk, first_seq),
  CHECK (first_seq <= last_seq)
);
CREATE INDEX observation_sources_message ON observation_sources (thread_pk, first_seq, last_seq);

CREATE TABLE observation_merges (
  observation_pk BIGINT NOT NULL REFERENCES observations (pk) ON DELETE CASCADE,
  merged_pk BIGINT NOT NULL REFERENCES observations (pk) ON DELETE CASCADE,
  PRIMARY KEY (observation_pk, merged_pk),
  CHECK (observation_pk <> merged_pk)
);
CREATE INDEX observation_merges_merged ON observation_merges (merged_pk);

-- Timed sole claims. A released lease keeps its row, so that the fence goes on rising.
CREATE TABLE leases (
  resource TEXT NOT NULL CHECK (resource <> ''),
  name TEXT NOT NULL CHECK (name <> ''),
  owner TEXT,
  fence BIGINT NOT NULL CHECK (fence > 0),
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (resource, name)
);
CREATE INDEX leases_expiry ON leases (expires_at) WHERE owner IS NOT NULL;

CREATE TABLE working_memory (
  pk {identity},
  resource TEXT NOT NULL CHECK (resource <> ''),
  thread_pk BIGINT REFERENCES threads (pk) ON DELETE CASCADE,
  format TEXT NOT NULL CHECK (format IN ('markdown', 'json')),
  version BIGINT NOT NULL CHECK (version > 0),
  schema TEXT
);
CREATE UNIQUE INDEX working_memory_scope ON working_memory (resource, (COALESCE(thread_pk, 0)));

CREATE TABLE working_memory_versions (
  document_pk BIGINT NOT NULL REFERENCES working_memory (pk) ON DELETE CASCADE,
  version BIGINT NOT NULL CHECK (version > 0),
  at BIGINT NOT NULL,
  who TEXT NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (document_pk, version)
);

-- The ledger: what each model request cost. Rows outlive their thread, so that a sum never shrinks.
CREATE TABLE usage (
  pk {identity},
  resource TEXT NOT NULL CHECK (resource <> ''),
  thread_pk BIGINT REFERENCES threads (pk) ON DELETE SET NULL,
  task_pk BIGINT REFERENCES tasks (pk) ON DELETE SET NULL,
  run TEXT,
  kind TEXT NOT NULL CHECK (kind IN ('turn', 'observe', 'reflect', 'other')),
  model TEXT NOT NULL,
  at BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL DEFAULT 0 CHECK (input_tokens >= 0),
  output_tokens BIGINT NOT NULL DEFAULT 0 CHECK (output_tokens >= 0),
  cache_read_tokens BIGINT NOT NULL DEFAULT 0 CHECK (cache_read_tokens >= 0),
  cache_write_tokens BIGINT NOT NULL DEFAULT 0 CHECK (cache_write_tokens >= 0),
  cost BIGINT NOT NULL DEFAULT 0 CHECK (cost >= 0)
);
CREATE INDEX usage_resource ON usage (resource, at);
CREATE INDEX usage_thread ON usage (thread_pk, at) WHERE thread_pk IS NOT NULL;

CREATE TABLE calibrations (
  resource TEXT NOT NULL CHECK (resource <> ''),
  model TEXT NOT NULL,
  factor DOUBLE PRECISION NOT NULL CHECK (factor > 0),
  samples BIGINT NOT NULL CHECK (samples >= 0),
  PRIMARY KEY (resource, model)
);

CREATE TABLE events (
  pk {identity},
  resource TEXT NOT NULL CHECK (resource <> ''),
  thread_pk BIGINT REFERENCES threads (pk) ON DELETE CASCADE,
  at BIGINT NOT NULL,
  kind TEXT NOT NULL,
  data TEXT NOT NULL
);
CREATE INDEX events_thread ON events (thread_pk, pk);
CREATE INDEX events_resource ON events (resource, pk);

-- What each prepared context held: numbers and ids, so that it can be built again.
CREATE TABLE contexts (
  thread_pk BIGINT NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
  number BIGINT NOT NULL CHECK (number > 0),
  turn TEXT NOT NULL,
  step BIGINT NOT NULL CHECK (step > 0),
  at BIGINT NOT NULL,
  record TEXT NOT NULL,
  PRIMARY KEY (thread_pk, number)
);
