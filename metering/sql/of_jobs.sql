-- What jobs used together: the time of all their attempts, and the tokens of those whose kind reports them.
SELECT coalesce(sum(greatest(extract(epoch FROM run.ended_at - run.claimed_at), 0)), 0)::float8 AS seconds,
       count(*) AS attempts, max(reading.model) AS model, coalesce(sum(reading.tokens_in), 0)::bigint AS tokens_in,
       coalesce(sum(reading.tokens_out), 0)::bigint AS tokens_out, coalesce(sum(reading.cost), 0) AS cost,
       coalesce(bool_or(reading.is_estimated), false) AS is_estimated
FROM (SELECT attempt.job_id, attempt.number AS fence, attempt.claimed_at, attempt.ended_at FROM jobs_attempt AS attempt
      WHERE attempt.job_id = ANY(%(jobs)s::bigint[])
      UNION ALL
      SELECT outcome.job_id, outcome.fence, outcome.claimed_at, outcome.ended_at FROM jobs_outcome AS outcome
      WHERE outcome.job_id = ANY(%(jobs)s::bigint[]) AND outcome.status = 'success') AS run
LEFT JOIN metering_reading AS reading ON reading.job_id = run.job_id AND reading.fence = run.fence
