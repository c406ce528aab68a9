-- Renew these leases, confirm those that no call has named before, and move progress and detail where given; a row for each
-- that holds, at its `place` (counted from 1); none for one whose row somebody else has locked, perhaps for long: the leases
-- of the others would run out meanwhile. No index holds these columns, so the update stays HOT. A lease holds until the
-- janitor takes the job back. A detail that differs from the last one of this attempt begins a stage, 200 of them at most.
-- Where it is a transaction by itself it does not wait for the disk: the next report comes soon.
WITH held AS MATERIALIZED (
    SELECT job.job_id AS id, beat.progress, beat.detail, beat.place
    FROM (SELECT * FROM unnest(%(job)s::bigint[], %(fence)s::bigint[], %(secret)s::uuid[], %(progress)s::float8[],
                               %(detail)s::text[])
              WITH ORDINALITY AS each (job_id, fence, secret, progress, detail, place) ORDER BY job_id) AS beat
    CROSS JOIN LATERAL (SELECT one.* FROM jobs_live AS one WHERE one.job_id = beat.job_id
                        FOR NO KEY UPDATE SKIP LOCKED) AS job
    WHERE job.fence = beat.fence AND job.lease_secret = beat.secret AND job.worker_id = %(worker)s::bigint
      AND (%(version)s::xid IS NULL OR EXISTS (SELECT FROM jobs_as_read(%(worker)s::bigint, %(version)s::xid)))
), renewed AS (
    UPDATE jobs_live AS job
    SET lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s::float8),
        confirmed_fence = job.fence,
        progress = coalesce(held.progress, job.progress),
        detail = coalesce(held.detail, job.detail)
    FROM held WHERE job.job_id = held.id
    RETURNING job.job_id AS id, job.fence, job.next_seq, job.progress, job.lease_expires_at, held.detail
), staged AS (
    INSERT INTO jobs_stage (job_id, attempt, number, detail, progress, began_at)
    SELECT renewed.id, renewed.fence, coalesce(last.number + 1, 0), renewed.detail, renewed.progress,
           statement_timestamp()
    FROM renewed LEFT JOIN LATERAL (
        SELECT stage.number, stage.detail FROM jobs_stage AS stage
        WHERE stage.job_id = renewed.id AND stage.attempt = renewed.fence
        ORDER BY stage.number DESC LIMIT 1) AS last ON true
    WHERE renewed.detail <> '' AND last.detail IS DISTINCT FROM renewed.detail AND coalesce(last.number, 0) < 199
    ON CONFLICT DO NOTHING
)
SELECT held.place, renewed.lease_expires_at, renewed.next_seq,
       CASE WHEN %(is_alone)s::boolean THEN set_config('synchronous_commit', 'off', true) END AS disk
FROM held JOIN renewed ON renewed.id = held.id
