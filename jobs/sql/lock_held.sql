-- Lock the jobs that these leases still hold, in the order of their ids (two batches in opposite orders would otherwise
-- wait for one another), and return what is needed to settle them.
SELECT job.id, job.kind, job.queue, job.claim_no, job.failures, job.max_attempts, job.worker_id, job.worker_name,
       job.claimed_at, job.shy_of, job.owner_id, job.group_id, job.retry_on_timeout, job.lease_secret
FROM jobs_job AS job
JOIN unnest(%(job)s::bigint[], %(claim_no)s::bigint[], %(secret)s::uuid[]) AS lease (job_id, claim_no, secret)
  ON job.id = lease.job_id AND job.claim_no = lease.claim_no AND job.lease_secret = lease.secret
WHERE job.worker_id = %(worker)s::bigint
  AND job.lease_expires_at > statement_timestamp()
  AND (job.deadline_at IS NULL OR job.deadline_at > statement_timestamp())
ORDER BY job.id
FOR UPDATE OF job
