-- acquire --
-- One conditional statement decides among any number of callers. The fence rises with every change of hands.
INSERT INTO leases (resource, name, owner, fence, expires_at)
VALUES (:resource, :name, :owner, 1, :expires_at)
ON CONFLICT (resource, name) DO UPDATE
SET owner = excluded.owner, fence = leases.fence + 1, expires_at = excluded.expires_at
WHERE leases.owner IS NULL OR leases.expires_at <= :now
RETURNING fence

-- renew --
-- An expired lease that nobody took over is still ours: the fence says so.
UPDATE leases SET expires_at = :expires_at
WHERE resource = :resource AND name = :name AND owner = :owner AND fence = :fence
RETURNING fence

-- release --
UPDATE leases SET owner = NULL, expires_at = 0
WHERE resource = :resource AND name = :name AND owner = :owner AND fence = :fence
RETURNING fence

-- get --
SELECT name, owner, fence, expires_at FROM leases
WHERE resource = :resource AND name = :name AND owner IS NOT NULL

-- expired --
SELECT name, owner, fence, expires_at FROM leases
WHERE resource = :resource AND owner IS NOT NULL AND expires_at <= :now
ORDER BY expires_at, name

-- reap --
-- The fence stays, so that a late holder is still refused. A second reaper that waited for the first finds no owner.
UPDATE leases SET owner = NULL, expires_at = 0
WHERE resource = :resource AND name = :name AND fence = :fence AND owner IS NOT NULL AND expires_at <= :now
RETURNING name
