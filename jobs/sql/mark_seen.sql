-- Note that workers were seen. Rows that are fresh, or being written by somebody, are left alone: a worker with many
-- calls at once must not queue up behind itself. Says of each row written whether its worker had been away.
WITH stale AS MATERIALIZED (
    SELECT id, last_seen_at FROM jobs_worker
    WHERE id = ANY (%(worker)s::bigint[])
      AND (last_seen_at IS NULL OR last_seen_at < statement_timestamp() - make_interval(secs => %(every_s)s::float8))
    ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE jobs_worker AS worker SET last_seen_at = statement_timestamp()
FROM stale WHERE worker.id = stale.id
RETURNING worker.id, stale.last_seen_at IS NULL
    OR stale.last_seen_at < statement_timestamp() - make_interval(secs => %(alive_s)s::float8) AS was_away
