-- Messages that are not live are few, so this index makes it quick to count the live ones without reading their rows.
CREATE INDEX messages_removed ON messages (thread_pk, seq) WHERE state <> 'live';
-- What removed messages, if it was not `forget`. NULL means that it was `forget`, or that it is not known.
ALTER TABLE generations ADD COLUMN cause TEXT CHECK (cause IN ('rewind', 'discard'));
