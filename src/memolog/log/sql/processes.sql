-- beat --
INSERT INTO processes (owner, beats, beat_at) VALUES (:owner, 1, :now)
ON CONFLICT (owner) DO UPDATE SET beats = processes.beats + 1, beat_at = excluded.beat_at
RETURNING beats

-- appear --
-- A beat that is written only if the last one is older than :before.
INSERT INTO processes (owner, beats, beat_at) VALUES (:owner, 1, :now)
ON CONFLICT (owner) DO UPDATE SET beats = processes.beats + 1, beat_at = excluded.beat_at WHERE processes.beat_at < :before

-- last_beat --
SELECT beats, beat_at FROM processes WHERE owner = :owner

-- sweep --
-- The row of a dead process is needed until its runs have been taken over.
DELETE FROM processes
WHERE beat_at < :before AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.owner = processes.owner AND r.status = 'running')
