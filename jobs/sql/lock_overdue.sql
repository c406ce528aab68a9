-- Lock running jobs whose lease or time has run out. SKIP LOCKED: another janitor has that one, or its worker is just
-- handing it in.
SELECT job.id, job.kind, job.queue, job.claim_no, job.failures, job.max_attempts, job.worker_id, job.worker_name,
       job.claimed_at, job.shy_of, job.owner_id, job.group_id, job.retry_on_timeout,
       job.lease_expires_at <= statement_timestamp() AS silent
FROM jobs_job AS job
WHERE job.status = 'in_progress'
  AND (job.lease_expires_at <= statement_timestamp() OR job.deadline_at <= statement_timestamp())
ORDER BY job.id
LIMIT %(limit)s::bigint
FOR UPDATE OF job SKIP LOCKED
