-- Seconds until the janitor has something to do; null: nothing in sight. Each part reads its own small partial index.
-- No lease is taken back before the grace after an absence of the farm is over (lock_overdue); while it is away that is
-- not in sight, and is looked at again in a second.
WITH reachability AS (
    SELECT max(CASE WHEN until < statement_timestamp() - make_interval(secs => %(gap_s)s::float8)
                    THEN statement_timestamp() + interval '1 second'
                    ELSE since + make_interval(secs => %(grace_s)s::float8) END) AS from_then_on
    FROM jobs_reachability
), running AS (
    SELECT min(least(lease_expires_at, deadline_at)) AS ends_at FROM jobs_job WHERE status = 'in_progress'
)
SELECT extract(epoch FROM least(
    (SELECT CASE WHEN ends_at IS NOT NULL THEN greatest(ends_at, from_then_on) END FROM running CROSS JOIN reachability),
    (SELECT min(expires_at) FROM jobs_job WHERE status = 'pending' AND expires_at IS NOT NULL AND confirmed_fence = 0),
    (SELECT min(excluded_until) FROM jobs_job WHERE status = 'pending' AND excluded_until IS NOT NULL)
) - statement_timestamp())::float8 AS seconds
