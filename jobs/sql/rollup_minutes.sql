-- Count anew what arrived and what ended in these minutes, by queue and kind: whatever was counted of them before is replaced, so it does
-- not matter how often, or how far, an earlier count came. Arrivals are found by id (first_since), ends by jobs_ended.
-- Runs and waits are counted of jobs that ended by themselves. A wait is from when the job was due, or its attempt
-- before was over, to the claim; only for those claimed more than once is that looked up in the history.
-- Buckets: jobs.domain.rollups. Returns how many rows changed.
WITH arrived AS (
    SELECT date_bin('1 minute', created_at, 'epoch') AS at, queue, kind, count(*)::integer AS jobs
    FROM jobs_job
    WHERE id >= %(first_id)s::bigint AND id < %(end_id)s::bigint
      AND created_at >= %(since)s::timestamptz AND created_at < %(until)s::timestamptz
    GROUP BY 1, 2, 3
), ended AS MATERIALIZED (
    SELECT date_bin('1 minute', job.ended_at, 'epoch') AS at, job.queue, job.kind, job.status, job.job_id, job.fence,
           CASE WHEN job.status IN ('success', 'failed')
                THEN extract(epoch FROM job.ended_at - job.claimed_at)::float8 END AS ran_s,
           CASE WHEN job.status IN ('success', 'failed')
                THEN extract(epoch FROM job.claimed_at - greatest(record.created_at, job.run_at, CASE WHEN job.fence > 1
                     THEN (SELECT max(before.ended_at) FROM jobs_attempt AS before
                           WHERE before.job_id = job.job_id AND before.number < job.fence) END))::float8 END AS waited_s
    FROM jobs_outcome AS job
    CROSS JOIN LATERAL (SELECT one.created_at FROM jobs_job AS one WHERE one.id = job.job_id OFFSET 0) AS record
    WHERE job.ended_at >= %(since)s::timestamptz AND job.ended_at < %(until)s::timestamptz
), outcome AS (
    SELECT at, queue, kind,
           count(*) FILTER (WHERE status = 'success')::integer AS success,
           count(*) FILTER (WHERE status = 'failed')::integer AS failed,
           count(*) FILTER (WHERE status = 'canceled')::integer AS canceled,
           count(*) FILTER (WHERE status = 'timed_out')::integer AS timed_out
    FROM ended GROUP BY 1, 2, 3
), times AS (
    SELECT at, queue, kind, jsonb_object_agg(bucket, jobs) FILTER (WHERE is_run) AS ran,
           jsonb_object_agg(bucket, jobs) FILTER (WHERE NOT is_run) AS waited
    FROM (SELECT at, queue, kind, is_run, count(*) AS jobs,
                 floor(4 * ln(least(greatest(seconds, 0.001), 252979200)) / ln(2))::integer AS bucket
          FROM ended CROSS JOIN LATERAL (VALUES (true, ran_s), (false, waited_s)) AS one (is_run, seconds)
          WHERE seconds IS NOT NULL GROUP BY at, queue, kind, is_run, bucket) AS counted
    GROUP BY 1, 2, 3
), fresh AS MATERIALIZED (
    SELECT at, queue, kind, coalesce(arrived.jobs, 0) AS arrived, coalesce(success, 0) AS success,
           coalesce(failed, 0) AS failed, coalesce(canceled, 0) AS canceled, coalesce(timed_out, 0) AS timed_out,
           coalesce(ran, '{}') AS ran, coalesce(waited, '{}') AS waited
    FROM arrived FULL JOIN outcome USING (at, queue, kind) LEFT JOIN times USING (at, queue, kind)
), gone AS (  -- a job that moved to another queue is not counted in both
    DELETE FROM jobs_rollup AS rollup
    WHERE rollup.step_s = 60 AND rollup.at >= %(since)s::timestamptz AND rollup.at < %(until)s::timestamptz
      AND NOT EXISTS (SELECT FROM fresh WHERE (fresh.at, fresh.queue, fresh.kind) = (rollup.at, rollup.queue, rollup.kind))
    RETURNING 1
), written AS (
    INSERT INTO jobs_rollup AS rollup
        (step_s, at, queue, kind, arrived, success, failed, canceled, timed_out, ran, waited)
    SELECT 60, at, queue, kind, arrived, success, failed, canceled, timed_out, ran, waited
    FROM fresh ORDER BY at, queue, kind
    ON CONFLICT (step_s, at, queue, kind) DO UPDATE
    SET arrived = excluded.arrived, success = excluded.success, failed = excluded.failed,
        canceled = excluded.canceled, timed_out = excluded.timed_out, ran = excluded.ran, waited = excluded.waited
    WHERE (rollup.arrived, rollup.success, rollup.failed, rollup.canceled, rollup.timed_out, rollup.ran, rollup.waited)
        IS DISTINCT FROM (excluded.arrived, excluded.success, excluded.failed, excluded.canceled, excluded.timed_out,
                          excluded.ran, excluded.waited)
    RETURNING 1
)
SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM written) AS changed
