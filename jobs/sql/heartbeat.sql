-- Renew a lease, confirm it if this is the first call that names it, and move progress and detail where given. No index
-- holds these columns, so the update stays HOT. Whether the lease has run out is for the janitor alone to say: until it
-- takes the job back, the lease holds. None is held by a worker whose row is not the `version` that was read
-- (docs/adr/0115).
-- A detail that differs from the last one of this attempt begins a stage, 200 of them at most; without a detail the
-- stages are not looked at.
-- Where it is a transaction by itself it does not wait for the disk: a report is no promise, and the next one comes
-- soon.
WITH renewed AS (
    UPDATE jobs_job
    SET lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s::float8),
        confirmed_fence = fence,
        progress = coalesce(%(progress)s::float8, progress),
        detail = coalesce(%(detail)s::text, detail)
    WHERE id = %(job)s::bigint AND status = 'in_progress' AND worker_id = %(worker)s::bigint
      AND fence = %(fence)s::bigint AND lease_secret = %(secret)s::uuid
      AND (%(version)s::xid IS NULL OR EXISTS (
          SELECT FROM jobs_worker AS worker LEFT JOIN auth_user AS person ON person.id = worker.owner_id
          WHERE worker.id = %(worker)s::bigint AND worker.xmin = %(version)s::xid AND coalesce(person.is_active, true)))
    RETURNING id, fence, progress, lease_expires_at
), staged AS (
    INSERT INTO jobs_stage (job_id, attempt, number, detail, progress, began_at)
    SELECT renewed.id, renewed.fence, coalesce(last.number + 1, 0), %(detail)s::text, renewed.progress,
           statement_timestamp()
    FROM renewed LEFT JOIN LATERAL (
        SELECT stage.number, stage.detail FROM jobs_stage AS stage
        WHERE stage.job_id = renewed.id AND stage.attempt = renewed.fence
        ORDER BY stage.number DESC LIMIT 1) AS last ON true
    WHERE %(detail)s::text <> '' AND last.detail IS DISTINCT FROM %(detail)s::text AND coalesce(last.number, 0) < 199
    ON CONFLICT DO NOTHING
)
SELECT lease_expires_at,
       CASE WHEN %(is_alone)s::boolean THEN set_config('synchronous_commit', 'off', true) END AS disk
FROM renewed
