-- Which of these leases no longer hold their job: it was canceled, timed out or is another's now.
SELECT lease.job_id
FROM unnest(%(job)s::bigint[], %(fence)s::bigint[]) AS lease (job_id, fence)
LEFT JOIN jobs_job AS job
  ON job.id = lease.job_id AND job.fence = lease.fence AND job.status = 'in_progress'
WHERE job.id IS NULL
