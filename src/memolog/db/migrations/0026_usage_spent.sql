-- The budget counts the requests of observers and reflectors. Those of turns are most rows, and are no longer in this index.
DROP INDEX usage_spent;
CREATE INDEX usage_spent ON usage (cost) WHERE kind <> 'turn';
