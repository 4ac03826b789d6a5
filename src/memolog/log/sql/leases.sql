-- acquire --
-- A single conditional statement, so that only one of several callers gets the lease. The fence rises with every new owner.
INSERT INTO leases (resource, name, owner, fence, expires_at)
VALUES (:resource, :name, :owner, 1, :expires_at)
ON CONFLICT (resource, name) DO UPDATE
SET owner = excluded.owner, fence = leases.fence + 1, expires_at = excluded.expires_at
WHERE leases.owner IS NULL OR leases.expires_at <= :now
RETURNING fence

-- release --
UPDATE leases SET owner = NULL, expires_at = 0
WHERE resource = :resource AND name = :name AND owner = :owner AND fence = :fence
RETURNING fence
