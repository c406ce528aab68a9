-- Which of these leases no longer hold their job: it was canceled, timed out or is another's now.
SELECT lease.job_id
FROM unnest(%(job)s::bigint[], %(fence)s::bigint[]) AS lease (job_id, fence)
LEFT JOIN jobs_live AS live
  ON live.job_id = lease.job_id AND live.fence = lease.fence AND live.lease_secret IS NOT NULL
WHERE live.job_id IS NULL
