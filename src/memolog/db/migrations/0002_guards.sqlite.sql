-- What no code may do, whoever writes it: change a saved message, move a cursor back, revive a finished run.

CREATE TRIGGER messages_never_change BEFORE UPDATE ON messages
WHEN NEW.thread_pk <> OLD.thread_pk OR NEW.seq <> OLD.seq OR NEW.id <> OLD.id OR NEW.continuation <> OLD.continuation
  OR NEW.role <> OLD.role OR NEW.created_at <> OLD.created_at OR NEW.tokens <> OLD.tokens OR NEW.own <> OLD.own
  OR (OLD.state = 'forgotten' AND (NEW.state <> 'forgotten' OR NEW.injection IS NOT NULL OR NEW.search IS NOT NULL))
  OR (NEW.parts <> OLD.parts AND NEW.state <> 'forgotten' AND NEW.pruned = 0)
BEGIN
  SELECT RAISE(ABORT, 'messages never change');
END;

CREATE TRIGGER cursors_never_go_back BEFORE UPDATE OF seq ON cursors
WHEN NEW.seq < OLD.seq
BEGIN
  SELECT RAISE(ABORT, 'cursors never go back');
END;

CREATE TRIGGER runs_end_once BEFORE UPDATE OF status ON runs
WHEN OLD.status IN ('done', 'abandoned') AND NEW.status <> OLD.status
BEGIN
  SELECT RAISE(ABORT, 'a finished run stays finished');
END;

CREATE TRIGGER sequences_never_go_back BEFORE UPDATE OF last_seq ON threads
WHEN NEW.last_seq < OLD.last_seq AND NEW.last_seq < (SELECT COALESCE(MAX(seq), 0) FROM messages WHERE thread_pk = OLD.pk)
BEGIN
  SELECT RAISE(ABORT, 'sequence numbers never go back');
END;
