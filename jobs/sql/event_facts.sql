-- What events say of jobs that ended, or whose attempt was lost. A result is read only where an endpoint asks for
-- results, and only up to a size: `result_bytes` says how large a larger one is. Neither it nor an error of one whose content is not kept.
SELECT job.id, job.kind, job.queue, stands.status, job.owner_id, owner.username AS owner, job.group_id, team.name AS team,
       job.unique_key, job.retry_of_id, stands.attempt, job.max_attempts, stands.worker_name, job.created_at, stands.ended_at,
       job.expires_at, stands.confirmed_fence,
       last.error, size.bytes AS result_bytes, CASE WHEN size.bytes <= %(most)s::bigint THEN stands.result END AS result
FROM jobs_job AS job CROSS JOIN LATERAL (
    SELECT status, attempt, worker_name, ended_at, confirmed_fence, fence, result FROM jobs_outcome WHERE job_id = job.id
    UNION ALL
    SELECT CASE WHEN lease_secret IS NULL THEN 'pending' ELSE 'in_progress' END, failures + (lease_secret IS NOT NULL)::integer,
           worker_name, NULL, confirmed_fence, fence, NULL
    FROM jobs_live WHERE job_id = job.id) AS stands
LEFT JOIN auth_user AS owner ON owner.id = job.owner_id
LEFT JOIN auth_group AS team ON team.id = job.group_id
LEFT JOIN jobs_contentdeletion AS deletion ON deletion.job_id = job.id
LEFT JOIN LATERAL (
    SELECT left(attempt.error, 2000) AS error FROM jobs_attempt AS attempt
    WHERE attempt.job_id = job.id AND attempt.number = stands.fence AND stands.status <> 'success'
      AND deletion.job_id IS NULL
) AS last ON true
LEFT JOIN LATERAL (
    SELECT octet_length(stands.result::text) AS bytes
    WHERE stands.status = 'success' AND deletion.job_id IS NULL AND EXISTS (SELECT FROM outbox_endpoint WHERE status <> 'disabled' AND with_result)
) AS size ON true
WHERE job.id = ANY (%(ids)s::bigint[])
ORDER BY job.id
