-- A process of the farm reports that it is there; one that reported its end stays ended. What was not seen for a day is
-- forgotten. One that serves workers notes that the farm is reachable for them: `since` moves to now when that was not
-- noted for longer than gap_s, for what workers sent meanwhile reached nobody. A note of another process that is younger
-- than half a beat serves as well, as one that is being written: nobody waits for the row. The very first note begins no gap:
-- nothing can have been missed. A note that lies ahead is of a clock that was set back.
WITH forgotten AS (
    DELETE FROM jobs_process
    WHERE seen_at < statement_timestamp() - interval '1 day' AND id <> %(id)s::uuid
), reported AS (
    INSERT INTO jobs_process (id, part, host, pid, errors)
    VALUES (%(id)s::uuid, %(part)s::text, %(host)s::text, %(pid)s::integer, %(errors)s::text[])
    ON CONFLICT (id) DO UPDATE SET seen_at = statement_timestamp(), errors = excluded.errors WHERE jobs_process.ended_at IS NULL
), first AS (
    INSERT INTO jobs_reachability (id, since, until)
    SELECT 1, 'epoch', statement_timestamp()
    WHERE %(serves_workers)s::boolean AND NOT EXISTS (SELECT FROM jobs_reachability)
    ON CONFLICT DO NOTHING
), stale AS MATERIALIZED (
    SELECT id FROM jobs_reachability
    WHERE %(serves_workers)s::boolean
      AND until NOT BETWEEN statement_timestamp() - make_interval(secs => %(beat_s)s::float8 / 2)
                        AND statement_timestamp() + make_interval(secs => %(gap_s)s::float8)
    FOR UPDATE SKIP LOCKED
)
UPDATE jobs_reachability AS reachability
SET since = CASE WHEN abs(extract(epoch FROM statement_timestamp() - reachability.until)) > %(gap_s)s::float8
                 THEN statement_timestamp() ELSE reachability.since END,
    until = statement_timestamp()
FROM stale WHERE reachability.id = stale.id
