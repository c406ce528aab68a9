-- What arrived and what ended in these steps of time, by queue and kind, as it is visible now: how many jobs by `measure`, and of
-- runs (ran) and waits (waited) by `bucket` (jobs.domain.rollups). Arrivals are found by id (first_since), ends by jobs_ended.
-- Of a tag or a person their newest jobs are looked at and no others: nothing is counted for them ahead of time.
-- Runs and waits are counted of jobs that ended by themselves. A wait is from when the job was due, or its attempt
-- before was over, to the claim; only for those claimed more than once is that looked up in the history.
WITH {chosen}ended AS MATERIALIZED (
    SELECT date_bin(%(step)s::interval, job.ended_at, 'epoch') AS at, job.queue, job.kind, job.status,
           extract(epoch FROM job.ended_at - job.claimed_at)::float8 AS ran_s,
           extract(epoch FROM job.claimed_at - greatest(record.created_at, job.run_at, (
               SELECT max(before.ended_at) FROM jobs_attempt AS before
               WHERE job.fence > 1 AND before.job_id = job.job_id AND before.number < job.fence)))::float8 AS waited_s
    FROM {outcomes} AS job
    CROSS JOIN LATERAL (SELECT one.created_at FROM jobs_job AS one WHERE one.id = job.job_id OFFSET 0) AS record
    WHERE job.ended_at >= %(since)s::timestamptz AND job.ended_at < %(until)s::timestamptz
)
SELECT date_bin(%(step)s::interval, created_at, 'epoch') AS at, queue, kind, 'arrived' AS measure, NULL::integer AS bucket,
       count(*) AS jobs
FROM {jobs} AS new
WHERE id >= %(first_id)s::bigint AND id < %(end_id)s::bigint
  AND created_at >= %(since)s::timestamptz AND created_at < %(until)s::timestamptz GROUP BY 1, 2, 3
UNION ALL
SELECT at, queue, kind, status, NULL, count(*) FROM ended GROUP BY 1, 2, 3, 4
UNION ALL
SELECT at, queue, kind, measure, floor(4 * ln(least(greatest(seconds, 0.001), 252979200)) / ln(2))::integer, count(*)
FROM ended CROSS JOIN LATERAL (VALUES ('ran', ran_s), ('waited', waited_s)) AS one (measure, seconds)
WHERE status IN ('success', 'failed') AND seconds IS NOT NULL GROUP BY 1, 2, 3, 4, 5
