-- How the log of a resource is kept, as the application said: for whoever opens the database and does not say it.
CREATE TABLE resource_settings (
  resource TEXT NOT NULL CHECK (resource <> ''),
  name TEXT NOT NULL CHECK (name <> ''),
  value TEXT NOT NULL,
  PRIMARY KEY (resource, name)
);

-- Resources that were used with a shared log and no other.
INSERT INTO resource_settings (resource, name, value)
SELECT DISTINCT l.resource, 'scope', '"resource"' FROM logs l
WHERE l.thread_pk IS NULL AND NOT EXISTS (SELECT 1 FROM logs x WHERE x.resource = l.resource AND x.thread_pk IS NOT NULL);
