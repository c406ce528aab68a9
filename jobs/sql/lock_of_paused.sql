-- Lock some jobs of paused owners that wait where claims look: those that were there before, and those that were submitted,
-- or put back, at the same moment. Which lanes an owner's jobs wait in is read one after the other, each by a look at the
-- index: there are few of them, and a hundred thousand jobs in those of the pause. A pause that is locked ends now, and one
-- that is locked here ends after these have moved, and so finds them (keep_paused.sql).
WITH RECURSIVE paused AS MATERIALIZED (
    SELECT one.owner_id FROM jobs_pausedowner AS one ORDER BY one.owner_id FOR SHARE SKIP LOCKED
), place AS (
    SELECT paused.owner_id, first.queue, first.lane_id FROM paused CROSS JOIN LATERAL (
        SELECT job.queue, job.lane_id FROM jobs_live AS job
        WHERE job.lease_secret IS NULL AND job.owner_id = paused.owner_id
        ORDER BY job.queue, job.lane_id LIMIT 1) AS first
    UNION ALL
    SELECT place.owner_id, next.queue, next.lane_id FROM place CROSS JOIN LATERAL (
        SELECT job.queue, job.lane_id FROM jobs_live AS job
        WHERE job.lease_secret IS NULL AND job.owner_id = place.owner_id
          AND (job.queue, job.lane_id) > (place.queue, place.lane_id)
        ORDER BY job.queue, job.lane_id LIMIT 1) AS next
), waiting AS MATERIALIZED (
    SELECT one.job_id AS id FROM place JOIN jobs_lane AS lane ON lane.id = place.lane_id AND lane.held_for <> place.owner_id
    CROSS JOIN LATERAL (
        SELECT job.job_id FROM jobs_live AS job
        WHERE job.lease_secret IS NULL AND job.owner_id = place.owner_id AND job.queue = place.queue
          AND job.lane_id = place.lane_id AND job.job_id <> ALL (%(but_for)s::bigint[])
        ORDER BY job.queue, job.lane_id LIMIT %(limit)s::bigint) AS one
    LIMIT %(limit)s::bigint
)
SELECT job.job_id AS id, job.kind, job.queue
FROM (SELECT waiting.id FROM waiting ORDER BY waiting.id) AS chosen
CROSS JOIN LATERAL (
    SELECT one.* FROM jobs_live AS one WHERE one.job_id = chosen.id FOR UPDATE SKIP LOCKED) AS job
WHERE job.lease_secret IS NULL
