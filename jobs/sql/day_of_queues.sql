-- How each queue did between two moments: jobs that ended, how many with success, how long they took from when they
-- might have begun to their end, and how many are due and waiting now. Canceled jobs are nobody's success or failure.
WITH ended AS MATERIALIZED (
    SELECT queue, count(*) AS ended, count(*) FILTER (WHERE status = 'success') AS succeeded,
           percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (
               ORDER BY extract(epoch FROM ended_at - greatest(run_at, record.created_at))::float8) AS latency_s
    FROM jobs_outcome CROSS JOIN LATERAL (
        SELECT created_at FROM jobs_job WHERE id = jobs_outcome.job_id OFFSET 0) AS record
    WHERE ended_at >= %(start)s AND ended_at < %(stop)s AND status <> 'canceled' GROUP BY queue
), waiting AS MATERIALIZED (
    SELECT queue, count(*) AS backlog FROM jobs_live
    WHERE lease_secret IS NULL AND run_at <= statement_timestamp() GROUP BY queue
)
SELECT name, coalesce(ended.ended, 0) AS ended, coalesce(ended.succeeded, 0) AS succeeded,
       ended.latency_s[1] AS latency_p50_s, ended.latency_s[2] AS latency_p95_s, coalesce(waiting.backlog, 0) AS backlog
FROM jobs_queue LEFT JOIN ended ON ended.queue = name LEFT JOIN waiting ON waiting.queue = name
ORDER BY name
