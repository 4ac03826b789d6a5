-- keys --
SELECT value FROM tombstones WHERE resource = :resource AND kind = 'key' ORDER BY pk

-- bury --
-- If it is forgotten again, the later time counts.
INSERT INTO tombstones (resource, kind, value, said_at, forgotten_at)
VALUES (:resource, :kind, :value, :said_at, :forgotten_at)
ON CONFLICT (resource, kind, value, said_at) DO UPDATE SET forgotten_at = excluded.forgotten_at

-- found --
SELECT kind, value, said_at, forgotten_at FROM tombstones WHERE resource = :resource AND value IN (:values[]) AND kind <> 'key'

-- lift --
DELETE FROM tombstones WHERE resource = :resource AND value IN (:values[]) AND kind <> 'key'
RETURNING pk
