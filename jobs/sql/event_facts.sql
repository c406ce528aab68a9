-- What events say of jobs that ended, or whose attempt was lost. A result is read only where an endpoint asks for
-- results, and only up to a size: `result_bytes` says how large a larger one is.
SELECT job.id, job.kind, job.queue, job.status, job.owner_id, owner.username AS owner, job.group_id, team.name AS team,
       job.unique_key, job.retry_of_id, job.attempt, job.max_attempts, job.worker_name, job.created_at, job.ended_at,
       job.expires_at, job.confirmed_fence,
       last.error, size.bytes AS result_bytes, CASE WHEN size.bytes <= %(most)s::bigint THEN body.result END AS result
FROM jobs_job AS job
LEFT JOIN auth_user AS owner ON owner.id = job.owner_id
LEFT JOIN auth_group AS team ON team.id = job.group_id
LEFT JOIN LATERAL (
    SELECT left(attempt.error, 2000) AS error FROM jobs_attempt AS attempt
    WHERE attempt.job_id = job.id AND attempt.number = job.fence AND job.status <> 'success'
) AS last ON true
LEFT JOIN jobs_body AS body ON body.job_id = job.id AND job.status = 'success'
     AND EXISTS (SELECT FROM outbox_endpoint WHERE status <> 'disabled' AND with_result)
LEFT JOIN LATERAL (SELECT octet_length(body.result::text) AS bytes) AS size ON true
WHERE job.id = ANY (%(ids)s::bigint[])
ORDER BY job.id
