-- by_words --
SELECT k.pk, k.title, k.summary, k.description FROM tasks k
WHERE k.resource = :resource AND (:any_status = 1 OR k.status IN (:statuses[]))
ORDER BY k.pk DESC
