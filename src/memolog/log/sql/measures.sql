-- open_runs --
SELECT kind, CASE WHEN status = 'failed' THEN 'failed' WHEN lease_until <= :now THEN 'expired' ELSE 'running' END AS state,
  COUNT(*) AS runs
FROM runs
WHERE status IN ('running', 'failed')
GROUP BY 1, 2

-- settings_among --
SELECT resource, name, value FROM resource_settings WHERE resource IN (:resources[]) ORDER BY resource, name

-- calibrations_among --
SELECT resource, model, factor, samples FROM calibrations WHERE resource IN (:resources[]) ORDER BY samples DESC, model

-- last_usage --
SELECT COALESCE(MAX(pk), 0) AS last FROM usage

-- usage_after --
-- The requests after :base, those up to :settled apart from the others.
SELECT CASE WHEN u.pk <= :settled THEN 1 ELSE 0 END AS is_settled, u.kind, COUNT(*) AS requests,
  SUM(u.input_tokens) AS input_tokens, SUM(u.output_tokens) AS output_tokens, SUM(u.cache_read_tokens) AS cache_read_tokens,
  SUM(u.cache_write_tokens) AS cache_write_tokens, SUM(u.cost) AS cost
FROM usage u
WHERE u.pk > :base
GROUP BY 1, 2

-- migrations --
SELECT version, checksum FROM memolog_migrations ORDER BY version
