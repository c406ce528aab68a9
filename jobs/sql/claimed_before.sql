-- The jobs that an earlier sending of this same call claimed, as far as their leases still hold and no call has named
-- them: its answer was lost on the way. Each gets a heartbeat interval anew. What was taken back meanwhile is somebody
-- else's, and what was confirmed has arrived. Locked in the order of their ids, as everywhere.
WITH unconfirmed AS MATERIALIZED (
    SELECT id FROM jobs_job
    WHERE status = 'in_progress' AND request = %(request)s::uuid AND worker_id = %(worker)s::bigint
      AND confirmed_fence < fence
    ORDER BY id FOR UPDATE
), renewed AS (
    UPDATE jobs_job AS job
    SET lease_expires_at = statement_timestamp() + make_interval(secs => %(confirm_s)s::float8)
    FROM unconfirmed WHERE job.id = unconfirmed.id
    RETURNING job.id, job.kind, job.queue, job.fence, job.lease_secret, job.lease_expires_at, job.attempt,
              job.max_attempts, job.retry_when_lost, job.counted_in IS NOT NULL AS has_ceiling
)
SELECT renewed.*, body.payload::text AS payload, body.traceparent, body.inputs::text AS inputs
FROM renewed LEFT JOIN jobs_body AS body ON body.job_id = renewed.id ORDER BY renewed.id
