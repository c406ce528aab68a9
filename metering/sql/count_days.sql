-- Add the attempts that ended in a period to the days they ended in (UTC). Each period is counted once: the caller moves
-- the watermark in the same transaction, and nothing can be added to the period any more (jobs' rollup_horizon.sql).
-- A success is told by its job, any other end by its attempt; what was never confirmed has neither. Tokens are those of
-- the attempt's reading, if its kind has any. Attempts are read from an id on (postgres.halving).
WITH run AS (
    SELECT job.id AS job_id, job.fence, job.kind, job.worker_id, job.token_id, job.owner_id, job.group_id,
           job.claimed_at, job.ended_at
    FROM jobs_job AS job
    WHERE job.ended_at >= %(since)s::timestamptz AND job.ended_at < %(until)s::timestamptz AND job.status = 'success'
    UNION ALL
    SELECT attempt.job_id, attempt.number, job.kind, attempt.worker_id, job.token_id, job.owner_id, job.group_id,
           attempt.claimed_at, attempt.ended_at
    FROM jobs_attempt AS attempt JOIN jobs_job AS job ON job.id = attempt.job_id
    WHERE attempt.id >= %(first_attempt)s::bigint
      AND attempt.ended_at >= %(since)s::timestamptz AND attempt.ended_at < %(until)s::timestamptz
), written AS (
    INSERT INTO metering_day AS target (
        day, kind, model, worker_id, token_id, person_id, group_id, attempts, seconds, tokens_in, tokens_out, cost)
    SELECT (run.ended_at AT TIME ZONE 'UTC')::date, run.kind, coalesce(reading.model, ''), run.worker_id, run.token_id,
           run.owner_id, run.group_id, count(*),
           sum(greatest(extract(epoch FROM run.ended_at - run.claimed_at), 0))::float8,
           coalesce(sum(reading.tokens_in), 0), coalesce(sum(reading.tokens_out), 0), coalesce(sum(reading.cost), 0)
    FROM run LEFT JOIN metering_reading AS reading ON reading.job_id = run.job_id AND reading.fence = run.fence
    GROUP BY 1, 2, 3, 4, 5, 6, 7
    ON CONFLICT (day, kind, model, worker_id, token_id, person_id, group_id) DO UPDATE
    SET attempts = target.attempts + excluded.attempts, seconds = target.seconds + excluded.seconds,
        tokens_in = target.tokens_in + excluded.tokens_in, tokens_out = target.tokens_out + excluded.tokens_out,
        cost = target.cost + excluded.cost
    RETURNING 1
)
SELECT count(*)::bigint AS changed FROM written
