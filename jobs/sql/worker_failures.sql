-- The attempts of a worker that failed, were lost or timed out within a week, by the kinds of their jobs: how many in the
-- last day, how many in the week, and when the last was. Of more than are read at most, the newest.
SELECT job.kind, count(*) FILTER (WHERE attempt.ended_at > statement_timestamp() - interval '1 day') AS day,
       count(*) AS week, max(attempt.ended_at) AS last_at
FROM (
    SELECT job_id, outcome, ended_at FROM jobs_attempt
    WHERE worker_id = %(worker)s::bigint AND ended_at > statement_timestamp() - interval '7 days'
    ORDER BY ended_at DESC LIMIT %(most)s::bigint) AS attempt
JOIN jobs_job AS job ON job.id = attempt.job_id
WHERE attempt.outcome NOT IN ('released', 'unconfirmed', 'suspended', 'canceled')
GROUP BY job.kind ORDER BY week DESC, job.kind
