-- What became of leases that hold nothing any more, for a worker that still speaks with them. A call whose answer was
-- lost is made again: `answered` is the status that the first finish was answered, null if there was none.
-- `in_scope`: the worker may know of this job at all.
SELECT lease.place, job.fence, job.status, attempt.outcome,
       job.id IS NOT NULL AND (worker.owner_id IS NULL OR worker.owner_id = job.owner_id OR EXISTS (
           SELECT FROM auth_user_groups AS membership
           WHERE membership.user_id = worker.owner_id AND membership.group_id = job.group_id)) AS in_scope,
       CASE WHEN job.fence = lease.fence AND job.last_secret = lease.secret AND job.worker_id = worker.id
                 AND job.status = 'success' THEN 'success'
            WHEN attempt.outcome = 'failed' AND job.fence = lease.fence AND job.status = 'failed' THEN 'failed'
            WHEN attempt.outcome = 'failed' THEN 'pending' END AS answered
FROM unnest(%(job)s::bigint[], %(fence)s::bigint[], %(secret)s::uuid[]) WITH ORDINALITY
     AS lease (job_id, fence, secret, place)
JOIN jobs_worker AS worker ON worker.id = %(worker)s::bigint
LEFT JOIN jobs_job AS job ON job.id = lease.job_id
LEFT JOIN jobs_attempt AS attempt
  ON attempt.job_id = lease.job_id AND attempt.number = lease.fence AND attempt.secret = lease.secret
 AND attempt.worker_id = worker.id
ORDER BY lease.place
