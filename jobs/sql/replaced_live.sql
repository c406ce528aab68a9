-- When a job that was replaced is due: at the moment that the newer submit names; without one now, or when it was due
-- before, so that who is replaced again and again keeps its place. Of one that waits behind another it is noted beside.
-- The live row is written whatever changes: a claim that began before is to find it at a place that it does not see
-- (docs/adr/0111), for it would hand out the payload of before. `listens`: whether an endpoint may ask for events.
WITH job AS MATERIALIZED (
    SELECT id, created_at, expires_at, limit_until FROM jobs_job WHERE id = %(id)s::bigint
), beside AS (
    UPDATE jobs_uniquekey
    SET follower_due_at = greatest(coalesce(%(run_at)s::timestamptz, least(follower_due_at, statement_timestamp())),
                                   (SELECT limit_until FROM job))
    WHERE follower_id = %(id)s::bigint RETURNING job_id
), due AS MATERIALIZED (
    SELECT one.ctid AS tid, CASE WHEN one.run_at = %(behind)s::timestamptz THEN one.run_at ELSE greatest(
               coalesce(%(run_at)s::timestamptz, least(one.run_at, statement_timestamp())), (SELECT limit_until FROM job)) END AS at
    FROM jobs_live AS one WHERE one.job_id = %(id)s::bigint OFFSET 0
), live AS (
    UPDATE jobs_live AS one
    SET run_at = (SELECT at FROM due), key_id = %(key_id)s::integer,
        lane_id = CASE WHEN one.key_id IS NOT DISTINCT FROM %(key_id)s::integer THEN one.lane_id ELSE jobs_enter(
            one.queue, (SELECT job.priority FROM jobs_job AS job WHERE job.id = one.job_id), one.owner_id, one.group_id,
            one.requirement_id, '{}', (SELECT at FROM due), %(key_id)s::integer) END
    WHERE one.ctid = ANY (ARRAY(SELECT tid FROM due))
    RETURNING one.run_at, one.lane_id
)
SELECT job.id, job.created_at, live.run_at, job.expires_at, job.limit_until, live.lane_id,
       EXISTS (SELECT FROM outbox_endpoint AS endpoint WHERE endpoint.status <> 'disabled') AS listens
FROM job CROSS JOIN live
