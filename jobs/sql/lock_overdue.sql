-- Lock running jobs whose lease or time has run out, but those that another janitor has, or that are just being handed in.
-- None while the farm is unreachable for its workers, nor for a grace after that: the silence may have been its own
-- (docs/adr/0042). A farm without web processes has no such row: its workers stand at the database.
SELECT job.job_id AS id, job.kind, job.queue, job.fence, job.failures, coalesce(record.max_attempts, 0) AS max_attempts,
       job.worker_id, job.worker_name, job.claimed_at, job.owner_id, job.group_id, job.releases, job.unconfirmed,
       job.is_metered, job.requirement_id,
       coalesce(record.retry_when_lost, false) AS retry_when_lost,
       coalesce(record.retry_on_timeout, false) AS retry_on_timeout,
       (SELECT lane.avoid FROM jobs_lane AS lane WHERE lane.id = job.lane_id
        AND job.claimed_at < job.run_at + make_interval(secs => %(avoid_s)s::float8)) AS avoid,
       job.confirmed_fence = job.fence AS confirmed,
       job.lease_expires_at <= statement_timestamp() AS silent,
       extract(epoch FROM statement_timestamp() - job.lease_expires_at)::float8 + %(lease_s)s::float8 AS last_seen_ago_s
FROM jobs_live AS job LEFT JOIN LATERAL (
    SELECT one.max_attempts, one.retry_when_lost, one.retry_on_timeout
    FROM jobs_job AS one WHERE one.id = job.job_id OFFSET 0) AS record ON true
WHERE job.lease_secret IS NOT NULL AND job.job_id <> ALL (%(but_for)s::bigint[])
  AND (job.lease_expires_at <= statement_timestamp() OR job.deadline_at <= statement_timestamp())
  AND NOT EXISTS (
      SELECT FROM jobs_reachability AS reachability
      WHERE reachability.until < statement_timestamp() - make_interval(secs => %(gap_s)s::float8)
         OR reachability.since > statement_timestamp() - make_interval(secs => %(grace_s)s::float8))
ORDER BY job.job_id
LIMIT %(limit)s::bigint
FOR UPDATE OF job SKIP LOCKED
