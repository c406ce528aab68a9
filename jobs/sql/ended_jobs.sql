-- How those of these jobs ended that have: the result as JSON, or the error of the last attempt that left one.
SELECT job.id, job.status, job.fence, body.result::text AS result,
       CASE WHEN job.status = 'success' THEN '' ELSE coalesce(
           (SELECT attempt.error FROM jobs_attempt AS attempt
            WHERE attempt.job_id = job.id AND attempt.error <> '' ORDER BY attempt.number DESC LIMIT 1), '') END AS error
FROM jobs_job AS job JOIN jobs_body AS body ON body.job_id = job.id
WHERE job.id = ANY (%(ids)s::bigint[]) AND job.ended_at IS NOT NULL
