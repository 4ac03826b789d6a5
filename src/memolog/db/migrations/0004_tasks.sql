-- What task memory needs beside its first tables.

-- One row a resource that has tasks. It counts the handles out, and whoever changes who blocks whom takes it first: two writers
-- that each close one of two blockers must see each other, or what they block would stay blocked for ever.
CREATE TABLE task_books (
  resource TEXT PRIMARY KEY CHECK (resource <> ''),
  last_handle BIGINT NOT NULL DEFAULT 0 CHECK (last_handle >= 0)
);

-- How long a claim was asked for, so that activity can renew it for as long again.
ALTER TABLE tasks ADD COLUMN lease_micros BIGINT;
-- A task that was restored does not decay again the next moment.
ALTER TABLE tasks ADD COLUMN restored_at BIGINT;

CREATE INDEX tasks_newest ON tasks (resource, created_at);
CREATE INDEX tasks_decay ON tasks (resource, level, closed_at) WHERE status = 'closed';
CREATE INDEX task_labels_label ON task_labels (label, task_pk);
CREATE INDEX usage_task ON usage (task_pk, at) WHERE task_pk IS NOT NULL;
CREATE INDEX tasks_deferred ON tasks (resource, defer_until) WHERE defer_until IS NOT NULL;
CREATE INDEX tasks_due ON tasks (resource, due) WHERE due IS NOT NULL;
