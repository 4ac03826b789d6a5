-- Search finds only observations of groups that are or were part of the log. So an observation is indexed when its group is
-- activated, and observations of a group that is never activated are not indexed at all.
CREATE OR REPLACE FUNCTION search_observation_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO search_queue (kind, source_pk, resource)
  SELECT 'observation', NEW.pk, l.resource FROM groups g JOIN logs l ON l.pk = g.log_pk
  WHERE g.pk = NEW.group_pk AND g.state IN ('active', 'covered')
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = search_queue.version + 1;
  RETURN NULL;
END $$;

CREATE FUNCTION search_group_shown() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO search_queue (kind, source_pk, resource)
  SELECT 'observation', o.pk, l.resource FROM observations o JOIN logs l ON l.pk = NEW.log_pk WHERE o.group_pk = NEW.pk
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = search_queue.version + 1;
  RETURN NULL;
END $$;
CREATE TRIGGER search_group_shown AFTER UPDATE OF state ON groups FOR EACH ROW
WHEN (NEW.state IN ('active', 'covered') AND OLD.state NOT IN ('active', 'covered'))
EXECUTE FUNCTION search_group_shown();

-- A superseded or dropped observation is found as before, so it is not indexed again.
CREATE OR REPLACE FUNCTION search_observation_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM search_docs WHERE doc BETWEEN -(NEW.pk << 9) - 255 AND -(NEW.pk << 9);
  INSERT INTO search_queue (kind, source_pk, resource)
  SELECT 'observation', NEW.pk, l.resource FROM groups g JOIN logs l ON l.pk = g.log_pk
  WHERE g.pk = NEW.group_pk AND g.state IN ('active', 'covered')
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = search_queue.version + 1;
  RETURN NULL;
END $$;
DROP TRIGGER search_observation_changed ON observations;
CREATE TRIGGER search_observation_changed AFTER UPDATE OF state, text, verbatim, files ON observations FOR EACH ROW
WHEN ((NEW.state IN ('active', 'superseded', 'dropped')) <> (OLD.state IN ('active', 'superseded', 'dropped'))
  OR NEW.text IS DISTINCT FROM OLD.text OR NEW.verbatim IS DISTINCT FROM OLD.verbatim OR NEW.files IS DISTINCT FROM OLD.files)
EXECUTE FUNCTION search_observation_changed();

DELETE FROM search_queue WHERE kind = 'observation' AND source_pk IN (
  SELECT o.pk FROM observations o JOIN groups g ON g.pk = o.group_pk WHERE g.state NOT IN ('active', 'covered'));
