-- Seconds until the janitor has something to do; null: nothing in sight. Each part reads its own small partial index.
-- No lease is taken back before the grace after an absence of the farm is over (lock_overdue).
-- `outgrown`: tables that are more than twice as large as when PostgreSQL last counted them. Each session keeps its plans
-- until then, and those of an empty hour read whole tables (a claim 9,000 pages in place of 39).
WITH reachability AS (
    SELECT max(CASE WHEN until < statement_timestamp() - make_interval(secs => %(gap_s)s::float8)
                    THEN statement_timestamp() + interval '1 second'
                    ELSE since + make_interval(secs => %(grace_s)s::float8) END) AS from_then_on
    FROM jobs_reachability
), running AS (
    SELECT min(least(lease_expires_at, deadline_at)) AS ends_at FROM jobs_live
    WHERE lease_secret IS NOT NULL AND job_id <> ALL (%(but_for)s::bigint[])
)
SELECT extract(epoch FROM least(
    (SELECT CASE WHEN ends_at IS NOT NULL THEN greatest(ends_at, from_then_on) END FROM running CROSS JOIN reachability),
    (SELECT min(expires_at) FROM jobs_live WHERE lease_secret IS NULL AND expires_at IS NOT NULL AND confirmed_fence = 0
     AND job_id <> ALL (%(but_for)s::bigint[])),
    (SELECT min(until) FROM jobs_suspension WHERE until IS NOT NULL AND job_id <> ALL (%(but_for)s::bigint[]))
) - statement_timestamp())::float8 AS seconds,
    ARRAY(SELECT counted.relname::text FROM pg_stat_user_tables AS counted JOIN pg_class ON pg_class.oid = counted.relid
          WHERE counted.relname IN ('jobs_job', 'jobs_live', 'jobs_outcome', 'jobs_lane', 'jobs_mark', 'jobs_tag',
                                    'jobs_edge', 'jobs_endedstep', 'jobs_signal', 'jobs_suspension')
            AND counted.n_mod_since_analyze > greatest(500, 2 * pg_class.reltuples)) AS outgrown
