-- For the overview: how many jobs stand how, counted in partial indexes up to a limit. Successes have none: a small table is
-- counted, of a large one the planner's own statistics say how many there are about.
WITH waiting AS MATERIALIZED (
    SELECT run_at <= statement_timestamp() AS is_due FROM jobs_live
    WHERE lease_secret IS NULL ORDER BY lane_id, run_at, job_id LIMIT %(limit)s::bigint
), size AS MATERIALIZED (
    SELECT pg_relation_size('jobs_outcome') < 8388608 AS is_small,
           (SELECT greatest(reltuples, 0) FROM pg_class WHERE oid = 'jobs_outcome'::regclass) AS jobs
)
SELECT (SELECT count(*) FROM waiting WHERE is_due) AS due,
       (SELECT count(*) FROM waiting WHERE NOT is_due) AS later,
       (SELECT count(*) FROM (SELECT FROM jobs_live WHERE lease_secret IS NOT NULL
                              ORDER BY worker_id, job_id LIMIT %(limit)s::bigint) AS counted) AS running,
       (SELECT count(*) FROM (SELECT FROM jobs_outcome WHERE status = 'failed'
                              ORDER BY job_id DESC LIMIT %(limit)s::bigint) AS counted) AS failed,
       (SELECT count(*) FROM (SELECT FROM jobs_outcome WHERE status = 'timed_out'
                              ORDER BY job_id DESC LIMIT %(limit)s::bigint) AS counted) AS timed_out,
       (SELECT count(*) FROM (SELECT FROM jobs_outcome WHERE status = 'canceled'
                              ORDER BY job_id DESC LIMIT %(limit)s::bigint) AS counted) AS canceled,
       CASE WHEN is_small THEN (SELECT count(*) FROM jobs_outcome WHERE status = 'success')
            ELSE (SELECT coalesce(sum(size.jobs * common.share), 0)::bigint
                  FROM pg_stats AS stats
                  CROSS JOIN LATERAL unnest(stats.most_common_vals::text::text[], stats.most_common_freqs)
                      AS common (value, share)
                  WHERE stats.schemaname = current_schema() AND stats.tablename = 'jobs_outcome'
                    AND stats.attname = 'status' AND common.value = 'success') END AS success,
       is_small
FROM size
