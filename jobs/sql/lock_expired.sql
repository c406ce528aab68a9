-- Lock waiting jobs that no worker has begun in time (it bounds the first start alone), with what they took of a limit.
-- They are written after the tokens are back: who holds a limit's row while it submits a twin would wait for them.
SELECT live.job_id AS id, live.kind, live.fence, live.confirmed_fence, record.limit_name, record.limit_key, record.limit_count,
       live.is_metered, live.has_key, live.in_flow
FROM jobs_live AS live CROSS JOIN LATERAL (
    SELECT job.limit_name, job.limit_key, job.limit_count FROM jobs_job AS job WHERE job.id = live.job_id OFFSET 0) AS record
WHERE live.lease_secret IS NULL AND live.expires_at <= statement_timestamp() AND live.confirmed_fence = 0
  AND live.job_id <> ALL (%(but_for)s::bigint[])
ORDER BY live.job_id LIMIT %(limit)s::bigint FOR UPDATE OF live SKIP LOCKED
