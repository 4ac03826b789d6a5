-- What no code may do, whoever writes it: change a saved message, move a cursor back, revive a finished run.

CREATE FUNCTION messages_never_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'messages never change' USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER messages_never_change BEFORE UPDATE ON messages FOR EACH ROW
WHEN (NEW.thread_pk <> OLD.thread_pk OR NEW.seq <> OLD.seq OR NEW.id <> OLD.id OR NEW.continuation <> OLD.continuation
  OR NEW.role <> OLD.role OR NEW.created_at <> OLD.created_at OR NEW.tokens <> OLD.tokens OR NEW.own <> OLD.own
  OR (OLD.state = 'forgotten' AND (NEW.state <> 'forgotten' OR NEW.injection IS NOT NULL OR NEW.search IS NOT NULL))
  OR (NEW.parts <> OLD.parts AND NEW.state <> 'forgotten' AND NEW.pruned = 0))
EXECUTE FUNCTION messages_never_change();

CREATE FUNCTION cursors_never_go_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'cursors never go back' USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER cursors_never_go_back BEFORE UPDATE OF seq ON cursors FOR EACH ROW
WHEN (NEW.seq < OLD.seq)
EXECUTE FUNCTION cursors_never_go_back();

CREATE FUNCTION runs_end_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'a finished run stays finished' USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER runs_end_once BEFORE UPDATE OF status ON runs FOR EACH ROW
WHEN (OLD.status IN ('done', 'abandoned') AND NEW.status <> OLD.status)
EXECUTE FUNCTION runs_end_once();

CREATE FUNCTION sequences_never_go_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.last_seq < (SELECT COALESCE(MAX(seq), 0) FROM messages WHERE thread_pk = OLD.pk) THEN
    RAISE EXCEPTION 'sequence numbers never go back' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER sequences_never_go_back BEFORE UPDATE OF last_seq ON threads FOR EACH ROW
WHEN (NEW.last_seq < OLD.last_seq)
EXECUTE FUNCTION sequences_never_go_back();
