-- beat --
INSERT INTO processes (owner, beats, beat_at) VALUES (:owner, 1, :now)
ON CONFLICT (owner) DO UPDATE SET beats = processes.beats + 1, beat_at = excluded.beat_at
RETURNING beats

-- appear --
-- A process that was not heard of for a while is there again.
INSERT INTO processes (owner, beats, beat_at) VALUES (:owner, 1, :now)
ON CONFLICT (owner) DO UPDATE SET beats = processes.beats + 1, beat_at = excluded.beat_at WHERE processes.beat_at < :before

-- last_beat --
SELECT beats, beat_at FROM processes WHERE owner = :owner

-- sweep --
-- A process whose run waits to be taken over must stay known to be silent.
DELETE FROM processes
WHERE beat_at < :before AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.owner = processes.owner AND r.status = 'running')
