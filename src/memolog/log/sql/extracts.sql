-- put_extract --
INSERT INTO extracts (thread_pk, first_seq, last_seq, at, key, who, run, value)
VALUES (:thread_pk, :first_seq, :last_seq, :at, :key, :who, :run, :value)

-- list_extracts --
SELECT e.key, ROW_NUMBER() OVER (PARTITION BY e.key ORDER BY e.last_seq, e.pk) AS version, e.first_seq, e.last_seq, e.at, e.who,
  e.run, e.value
FROM extracts e JOIN threads t ON t.pk = e.thread_pk
WHERE t.resource = :resource AND t.id = :thread AND e.last_seq < :before
ORDER BY e.key, e.last_seq, e.pk

-- delete_extracts_over --
-- Values extracted from withdrawn messages are deleted with them.
DELETE FROM extracts WHERE thread_pk = :thread_pk AND first_seq <= :last_seq AND last_seq >= :first_seq

-- copy_extracts --
INSERT INTO extracts (thread_pk, first_seq, last_seq, at, key, who, run, value)
SELECT :target_pk, e.first_seq, e.last_seq, e.at, e.key, e.who, e.run, e.value
FROM extracts e WHERE e.thread_pk = :source_pk ORDER BY e.pk
