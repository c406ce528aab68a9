-- What became of leases that hold nothing any more, for a worker that still speaks with them. A call whose answer was lost
-- is made again: `answered` is the status that the first finish was answered, null if there was none.
-- `in_scope`: the worker may know of this job at all.
SELECT lease.place, job.claim_no, job.status, attempt.outcome,
       job.id IS NOT NULL AND (worker.owner_id IS NULL OR worker.owner_id = job.owner_id OR EXISTS (
           SELECT FROM auth_user_groups AS membership
           WHERE membership.user_id = worker.owner_id AND membership.group_id = job.group_id)) AS in_scope,
       CASE WHEN job.claim_no = lease.claim_no AND job.last_secret = lease.secret AND job.worker_id = worker.id
                 AND job.status = 'success' THEN 'success'
            WHEN attempt.outcome = 'failed' AND job.claim_no = lease.claim_no AND job.status = 'failed' THEN 'failed'
            WHEN attempt.outcome = 'failed' THEN 'pending' END AS answered
FROM unnest(%(job)s::bigint[], %(claim_no)s::bigint[], %(secret)s::uuid[]) WITH ORDINALITY
     AS lease (job_id, claim_no, secret, place)
JOIN jobs_worker AS worker ON worker.id = %(worker)s::bigint
LEFT JOIN jobs_job AS job ON job.id = lease.job_id
LEFT JOIN jobs_attempt AS attempt
  ON attempt.job_id = lease.job_id AND attempt.number = lease.claim_no AND attempt.secret = lease.secret
 AND attempt.worker_id = worker.id
ORDER BY lease.place
