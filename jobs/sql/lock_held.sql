-- Lock the jobs that these leases still hold, in the order of their ids (two batches in opposite orders would wait for one
-- another), and return what is needed to settle them. One whose record somebody deleted is never retried. From here on
-- the transaction waits for nobody's lock for longer than `wait`.
-- `avoid`: who leaves the job to others still; null once it was claimed after their grace.
SELECT job.job_id AS id, job.kind, job.queue, job.fence, job.failures, coalesce(record.max_attempts, 0) AS max_attempts,
       job.worker_id, job.worker_name, job.claimed_at, job.owner_id, job.group_id, job.releases, job.unconfirmed,
       job.lease_secret, job.confirmed_fence, job.is_metered, job.requirement_id,
       (SELECT lane.avoid FROM jobs_lane AS lane WHERE lane.id = job.lane_id
        AND job.claimed_at < job.run_at + make_interval(secs => %(grace_s)s::float8)) AS avoid
FROM (SELECT * FROM unnest(%(job)s::bigint[], %(fence)s::bigint[], %(secret)s::uuid[]) AS each (job_id, fence, secret)
      WHERE (SELECT set_config('lock_timeout', %(wait)s::text, true)) <> '' ORDER BY job_id) AS lease
CROSS JOIN LATERAL (SELECT one.* FROM jobs_live AS one WHERE one.job_id = lease.job_id FOR UPDATE) AS job
LEFT JOIN LATERAL (
    SELECT one.max_attempts FROM jobs_job AS one WHERE one.id = lease.job_id OFFSET 0) AS record ON true
WHERE job.fence = lease.fence AND job.lease_secret = lease.secret AND job.worker_id = %(worker)s::bigint
  AND (%(version)s::xid IS NULL OR EXISTS (SELECT FROM jobs_as_read(%(worker)s::bigint, %(version)s::xid)))
