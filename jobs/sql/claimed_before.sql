-- The jobs that an earlier sending of this same call claimed, as far as their leases still hold and no call has named
-- them: its answer was lost on the way. Each gets a heartbeat interval anew. Locked in the order of their ids.
WITH unconfirmed AS MATERIALIZED (
    SELECT job_id FROM jobs_live
    WHERE lease_secret IS NOT NULL AND request = %(request)s::uuid AND worker_id = %(worker)s::bigint
      AND confirmed_fence < fence
    ORDER BY job_id FOR UPDATE
), renewed AS (
    UPDATE jobs_live AS live
    SET lease_expires_at = statement_timestamp() + make_interval(secs => %(confirm_s)s::float8)
    FROM unconfirmed WHERE live.job_id = unconfirmed.job_id
    RETURNING live.job_id AS id, live.kind, live.queue, live.fence, live.lease_secret, live.lease_expires_at,
              live.failures + 1 AS attempt, live.counted_in IS NOT NULL AS is_counted, live.in_flow, live.has_checkpoint,
              live.counted_in IS NOT NULL AND (live.key_id IS NOT NULL OR EXISTS (
                  SELECT FROM jobs_queue AS queue WHERE queue.name = live.queue AND queue.ceiling IS NOT NULL)) AS has_ceiling
)
SELECT renewed.*, record.*, CASE WHEN renewed.in_flow THEN jobs_came_after(
           ARRAY(SELECT id FROM renewed WHERE in_flow), renewed.id, %(results_bytes)s::bigint) END AS after
FROM renewed CROSS JOIN LATERAL (
    SELECT job.max_attempts, job.retry_when_lost, job.payload::text AS payload, job.traceparent, job.inputs::text AS inputs
    FROM jobs_job AS job WHERE job.id = renewed.id OFFSET 0) AS record
ORDER BY renewed.id
