-- Note a request under its key, in the transaction that carries it out, and say whether it is the first with it, or the
-- first since the key is no longer kept. Who comes meanwhile waits here for its end, for `wait_ms` at most (then:
-- lock_not_available); what the request itself waits for later is bounded as it was.
WITH bounded AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS before, set_config('lock_timeout', %(wait_ms)s::text, true) AS now
), noted AS (
    INSERT INTO jobs_idempotencykey AS known (owner_id, key, fingerprint, created_at, job_ids, skipped)
    SELECT %(owner_id)s::integer, %(key)s::text, %(fingerprint)s::bytea, statement_timestamp(), '{}', '{}' FROM bounded
    ON CONFLICT (owner_id, key) DO UPDATE SET fingerprint = excluded.fingerprint, created_at = excluded.created_at
    WHERE known.created_at <= statement_timestamp() - make_interval(secs => %(retention_s)s::float8)
    RETURNING known.key
)
SELECT inserted.count = 1 AS is_first, set_config('lock_timeout', bounded.before, true) AS lock_timeout
FROM bounded CROSS JOIN (SELECT count(*) FROM noted) AS inserted
