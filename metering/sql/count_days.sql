-- Add the attempts that ended in a period to the days they ended in (UTC). Each period is counted once: the caller moves
-- the watermark in the same transaction, and nothing can be added to the period any more (jobs' rollup_horizon.sql).
-- A success is told by its job, any other end by its attempt; what was never confirmed has neither. Tokens are those of
-- the attempt's reading, if its kind has any. Attempts are read from an id on (postgres.halving).
-- A sum stands still before it leaves its column: it would keep everybody's usage from being counted. A model's name is
-- any text of a payload: of a person who has many rows in a day already, what comes is counted without it.
WITH crowded AS MATERIALIZED (
    SELECT day, person_id FROM metering_day
    WHERE day BETWEEN (%(since)s::timestamptz AT TIME ZONE 'UTC')::date AND (%(until)s::timestamptz AT TIME ZONE 'UTC')::date
      AND person_id IS NOT NULL
    GROUP BY 1, 2 HAVING count(*) >= %(most_rows)s::bigint
), run AS (
    SELECT outcome.job_id, outcome.fence, outcome.kind, outcome.worker_id, record.token_id, record.owner_id, record.group_id,
           outcome.claimed_at, outcome.ended_at
    FROM jobs_outcome AS outcome CROSS JOIN LATERAL (
        SELECT job.token_id, job.owner_id, job.group_id FROM jobs_job AS job WHERE job.id = outcome.job_id OFFSET 0) AS record
    WHERE outcome.ended_at >= %(since)s::timestamptz AND outcome.ended_at < %(until)s::timestamptz
      AND outcome.status = 'success'
    UNION ALL
    SELECT attempt.job_id, attempt.number, job.kind, attempt.worker_id, job.token_id, job.owner_id, job.group_id,
           attempt.claimed_at, attempt.ended_at
    FROM jobs_attempt AS attempt JOIN jobs_job AS job ON job.id = attempt.job_id
    WHERE attempt.id >= %(first_attempt)s::bigint
      AND attempt.ended_at >= %(since)s::timestamptz AND attempt.ended_at < %(until)s::timestamptz
), written AS (
    INSERT INTO metering_day AS target (
        day, kind, model, worker_id, token_id, person_id, group_id, attempts, seconds, tokens_in, tokens_out, cost)
    SELECT (run.ended_at AT TIME ZONE 'UTC')::date, run.kind,
           CASE WHEN crowded.day IS NULL THEN coalesce(reading.model, '') ELSE '' END, run.worker_id, run.token_id,
           run.owner_id, run.group_id, count(*),
           sum(greatest(extract(epoch FROM run.ended_at - run.claimed_at), 0))::float8,
           least(coalesce(sum(reading.tokens_in), 0), 9e18), least(coalesce(sum(reading.tokens_out), 0), 9e18),
           least(coalesce(sum(reading.cost), 0), 9e17)
    FROM run LEFT JOIN metering_reading AS reading ON reading.job_id = run.job_id AND reading.fence = run.fence
    LEFT JOIN crowded ON crowded.person_id = run.owner_id AND crowded.day = (run.ended_at AT TIME ZONE 'UTC')::date
    GROUP BY 1, 2, 3, 4, 5, 6, 7
    ON CONFLICT (day, kind, model, worker_id, token_id, person_id, group_id) DO UPDATE
    SET attempts = target.attempts + excluded.attempts, seconds = target.seconds + excluded.seconds,
        tokens_in = least(target.tokens_in::numeric + excluded.tokens_in, 9e18),
        tokens_out = least(target.tokens_out::numeric + excluded.tokens_out, 9e18),
        cost = least(target.cost + excluded.cost, 9e17)
    RETURNING 1
)
SELECT count(*)::bigint AS changed FROM written
