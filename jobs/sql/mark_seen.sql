-- Note that workers were seen. Rows that are fresh, or being written by somebody, are left alone: a worker with many
-- calls at once must not queue up behind itself. A worker that had been away is there since now.
WITH stale AS MATERIALIZED (
    SELECT id, last_seen_at, last_seen_at IS NULL
        OR last_seen_at < statement_timestamp() - make_interval(secs => %(alive_s)s::float8) AS was_away
    FROM jobs_worker
    WHERE id = ANY (%(worker)s::bigint[])
      AND (last_seen_at IS NULL OR last_seen_at < statement_timestamp() - make_interval(secs => %(every_s)s::float8))
    ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE jobs_worker AS worker
SET last_seen_at = statement_timestamp(),
    connected_at = CASE WHEN stale.was_away THEN statement_timestamp()
                        ELSE coalesce(worker.connected_at, statement_timestamp()) END
FROM stale WHERE worker.id = stale.id
RETURNING worker.id, stale.was_away
