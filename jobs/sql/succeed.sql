-- Write that running jobs succeeded, where the given leases still hold them: what lock_held and settle do, in one
-- statement, for the end that most jobs have and that leaves nothing to decide. The rows are locked in the order of
-- their ids: two batches in opposite orders would otherwise wait for one another. Only a running job has a secret.
-- None is held by a worker whose row is not the `version` that was read (docs/adr/0115).
-- `counted_in`: the queue whose ceiling has room now. `listens`: whether an endpoint of the outbox may ask for events.
WITH held AS MATERIALIZED (
    SELECT job.id, lease.place, lease.result
    FROM jobs_job AS job
    JOIN unnest(%(job)s::bigint[], %(fence)s::bigint[], %(secret)s::uuid[], %(result)s::text[]) WITH ORDINALITY
         AS lease (job_id, fence, secret, result, place)
      ON job.id = lease.job_id AND job.fence = lease.fence AND job.lease_secret = lease.secret
    WHERE job.worker_id = %(worker)s::bigint
      AND (%(version)s::xid IS NULL OR EXISTS (
          SELECT FROM jobs_worker AS worker LEFT JOIN auth_user AS person ON person.id = worker.owner_id
          WHERE worker.id = %(worker)s::bigint AND worker.xmin = %(version)s::xid AND coalesce(person.is_active, true)))
    ORDER BY job.id
    FOR UPDATE OF job
), settled AS (
    UPDATE jobs_job AS job
    SET status = 'success', ended_at = statement_timestamp(), progress = 1,
        detail = NULL, releases = 0, unconfirmed = 0, confirmed_fence = job.fence, last_secret = job.lease_secret, lease_secret = NULL,
        lease_expires_at = NULL, deadline_at = NULL
    FROM held WHERE job.id = held.id AND job.lease_secret IS NOT NULL
    RETURNING job.id, job.kind, job.queue, job.status, job.fence, job.failures, job.worker_name,
              job.is_metered, job.counted_in, held.place
), kept AS (
    UPDATE jobs_body AS body SET result = held.result::jsonb
    FROM held WHERE body.job_id = held.id AND held.result IS NOT NULL
)
SELECT settled.*, EXISTS (SELECT FROM outbox_endpoint AS endpoint WHERE endpoint.status <> 'disabled') AS listens
FROM settled
