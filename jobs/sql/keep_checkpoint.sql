-- Keep what an attempt has found out so far in place of what was kept before, of the job that this lease holds, and renew
-- the lease; null: keep nothing any more. A row if the lease holds. The job's row is locked until the commit: whoever claims
-- the job later reads what was written before, and whoever lost it writes nothing. It is waited for no longer than `wait`.
WITH held AS MATERIALIZED (
    SELECT job.job_id AS id, job.fence
    FROM (SELECT one.* FROM jobs_live AS one WHERE one.job_id = %(job)s::bigint
          AND (SELECT set_config('lock_timeout', %(wait)s::text, true)) <> '' FOR NO KEY UPDATE) AS job
    WHERE job.fence = %(fence)s::bigint AND job.lease_secret = %(secret)s::uuid AND job.worker_id = %(worker)s::bigint
      AND (%(version)s::xid IS NULL OR EXISTS (SELECT FROM jobs_as_read(%(worker)s::bigint, %(version)s::xid)))
), renewed AS (
    UPDATE jobs_live AS job
    SET lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s::float8),
        confirmed_fence = job.fence, has_checkpoint = %(value)s::jsonb IS NOT NULL
    FROM held WHERE job.job_id = held.id
    RETURNING job.lease_expires_at
), forgotten AS (
    DELETE FROM jobs_checkpoint WHERE job_id = ANY (ARRAY(SELECT id FROM held)) AND %(value)s::jsonb IS NULL
), kept AS (
    INSERT INTO jobs_checkpoint AS checkpoint (job_id, fence, value, children, written_at)
    SELECT id, fence, %(value)s::jsonb, %(children)s::smallint, statement_timestamp() FROM held WHERE %(value)s::jsonb IS NOT NULL
    ON CONFLICT (job_id) DO UPDATE
    SET fence = excluded.fence, value = excluded.value, children = excluded.children, written_at = excluded.written_at
)
SELECT lease_expires_at FROM renewed
