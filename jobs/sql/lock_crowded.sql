-- Lock some jobs that wait in lanes of all owners, in queues that keep owners apart by now: the first ones, or where an owner
-- is given those of theirs and of their groups. There are such lanes only for a while after a member's first worker came; and
-- (only of the first ones) those that wait as a fair queue was shared out before.
-- An owner's are read in the order of their own index: where statistics expect a twentieth of all jobs to be anybody's, all
-- of them were read.
WITH together AS MATERIALIZED (
    SELECT DISTINCT mark.lane_id AS id, mark.queue FROM jobs_mark AS mark
    JOIN jobs_queue AS queue ON queue.name = mark.queue AND queue.by_owner
    JOIN jobs_lane AS lane ON lane.id = mark.lane_id AND NOT lane.is_apart
    WHERE mark.owner_id = 0 AND mark.group_id = 0
    UNION
    SELECT mark.lane_id, mark.queue FROM jobs_queue AS queue JOIN jobs_mark AS mark ON mark.queue = queue.name
    JOIN jobs_lane AS lane ON lane.id = mark.lane_id AND lane.fair <> queue.fair
    WHERE queue.fair <> 'off' AND %(owner)s::integer IS NULL
), waiting AS MATERIALIZED (
    SELECT one.id FROM together CROSS JOIN LATERAL (
        SELECT job.job_id AS id FROM jobs_live AS job
        WHERE %(owner)s::integer IS NULL AND job.lease_secret IS NULL AND job.lane_id = together.id
          AND job.job_id <> ALL (%(but_for)s::bigint[])
        ORDER BY job.run_at, job.job_id LIMIT %(limit)s::bigint) AS one
    UNION
    (SELECT job.job_id FROM jobs_live AS job
     WHERE job.lease_secret IS NULL AND job.owner_id = %(owner)s::integer
       AND job.lane_id = ANY (ARRAY(SELECT id FROM together))
     ORDER BY job.queue, job.lane_id LIMIT %(limit)s::bigint)
    UNION
    SELECT job.job_id FROM auth_user_groups AS membership CROSS JOIN LATERAL (
        SELECT one.job_id FROM jobs_live AS one
        WHERE one.lease_secret IS NULL AND one.group_id = membership.group_id
          AND one.lane_id = ANY (ARRAY(SELECT id FROM together))
        ORDER BY one.queue, one.lane_id LIMIT %(limit)s::bigint) AS job
    WHERE membership.user_id = %(owner)s::integer
    LIMIT %(limit)s::bigint
)
SELECT job.job_id AS id, job.kind, job.queue
FROM (SELECT waiting.id FROM waiting ORDER BY waiting.id) AS chosen
CROSS JOIN LATERAL (
    SELECT one.* FROM jobs_live AS one WHERE one.job_id = chosen.id FOR UPDATE SKIP LOCKED) AS job
WHERE job.lease_secret IS NULL
