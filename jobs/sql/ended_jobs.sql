-- How those of these jobs ended that have: the result as JSON, or the error of the last attempt that left one.
SELECT outcome.job_id AS id, outcome.status, outcome.fence, outcome.result::text AS result,
       CASE WHEN outcome.status = 'success' THEN '' ELSE coalesce(
           (SELECT attempt.error FROM jobs_attempt AS attempt
            WHERE attempt.job_id = outcome.job_id AND attempt.error <> '' ORDER BY attempt.number DESC LIMIT 1), '') END AS error
FROM jobs_outcome AS outcome WHERE outcome.job_id = ANY (%(ids)s::bigint[])
