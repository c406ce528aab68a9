-- What became of leases that hold nothing any more, for a worker whose call may be a repeat. `answered`: the status that
-- the first finish was answered, null if there was none. `in_scope`: the worker may know of this job at all.
SELECT lease.place, coalesce(outcome.fence, live.fence) AS fence,
       coalesce(outcome.status, CASE WHEN live.lease_secret IS NULL THEN 'pending' ELSE 'in_progress' END) AS status,
       attempt.outcome,
       job.id IS NOT NULL AND (worker.owner_id IS NULL OR worker.owner_id = job.owner_id OR EXISTS (
           SELECT FROM auth_user_groups AS membership
           WHERE membership.user_id = worker.owner_id AND membership.group_id = job.group_id)) AS in_scope,
       CASE WHEN outcome.fence = lease.fence AND outcome.last_secret = lease.secret AND outcome.worker_id = worker.id
                 AND outcome.status = 'success' THEN 'success'
            WHEN attempt.outcome = 'failed' AND outcome.fence = lease.fence AND outcome.status = 'failed' THEN 'failed'
            WHEN attempt.outcome IN ('failed', 'suspended') THEN 'pending' END AS answered
FROM unnest(%(job)s::bigint[], %(fence)s::bigint[], %(secret)s::uuid[]) WITH ORDINALITY
     AS lease (job_id, fence, secret, place)
JOIN jobs_worker AS worker ON worker.id = %(worker)s::bigint
LEFT JOIN jobs_job AS job ON job.id = lease.job_id
LEFT JOIN jobs_live AS live ON live.job_id = lease.job_id
LEFT JOIN jobs_outcome AS outcome ON outcome.job_id = lease.job_id
LEFT JOIN jobs_attempt AS attempt
  ON attempt.job_id = lease.job_id AND attempt.number = lease.fence AND attempt.secret = lease.secret
 AND attempt.worker_id = worker.id
ORDER BY lease.place
