-- Search finds only observations of groups that are or were part of the log. So an observation is indexed when its group is
-- activated, and observations of a group that is never activated are not indexed at all.
DROP TRIGGER search_observation_new;
CREATE TRIGGER search_observation_new AFTER INSERT ON observations
WHEN EXISTS (SELECT 1 FROM groups g WHERE g.pk = NEW.group_pk AND g.state IN ('active', 'covered'))
BEGIN
  INSERT INTO search_queue (kind, source_pk, resource)
  SELECT 'observation', NEW.pk, l.resource FROM groups g JOIN logs l ON l.pk = g.log_pk WHERE g.pk = NEW.group_pk
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = version + 1;
END;

CREATE TRIGGER search_group_shown AFTER UPDATE OF state ON groups
WHEN NEW.state IN ('active', 'covered') AND OLD.state NOT IN ('active', 'covered')
BEGIN
  INSERT INTO search_queue (kind, source_pk, resource)
  SELECT 'observation', o.pk, l.resource FROM observations o JOIN logs l ON l.pk = NEW.log_pk WHERE o.group_pk = NEW.pk
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = version + 1;
END;

-- A superseded or dropped observation is found as before, so it is not indexed again.
DROP TRIGGER search_observation_changed;
CREATE TRIGGER search_observation_changed AFTER UPDATE OF state, text, verbatim, files ON observations
WHEN (NEW.state IN ('active', 'superseded', 'dropped')) <> (OLD.state IN ('active', 'superseded', 'dropped'))
  OR NEW.text IS NOT OLD.text OR NEW.verbatim IS NOT OLD.verbatim OR NEW.files IS NOT OLD.files
BEGIN
  DELETE FROM search_docs WHERE doc BETWEEN -(NEW.pk << 9) - 255 AND -(NEW.pk << 9);
  INSERT INTO search_queue (kind, source_pk, resource)
  SELECT 'observation', NEW.pk, l.resource FROM groups g JOIN logs l ON l.pk = g.log_pk
  WHERE g.pk = NEW.group_pk AND g.state IN ('active', 'covered')
  ON CONFLICT (kind, source_pk) DO UPDATE SET version = version + 1;
END;

DELETE FROM search_queue WHERE kind = 'observation' AND source_pk IN (
  SELECT o.pk FROM observations o JOIN groups g ON g.pk = o.group_pk WHERE g.state NOT IN ('active', 'covered'));
