-- Lock some jobs that wait in lanes of all owners, in queues that keep owners apart by now: the first ones, or where an owner
-- is given those of theirs and of their groups. What came in while a queue began to keep them apart is found here too.
-- There are such lanes only for a while after a member's first worker came.
WITH together AS MATERIALIZED (
    SELECT DISTINCT mark.lane_id AS id, mark.queue FROM jobs_mark AS mark
    JOIN jobs_queue AS queue ON queue.name = mark.queue AND queue.by_owner
    JOIN jobs_lane AS lane ON lane.id = mark.lane_id AND NOT lane.is_apart
    WHERE mark.owner_id = 0 AND mark.group_id = 0
), waiting AS MATERIALIZED (
    SELECT one.id FROM together CROSS JOIN LATERAL (
        SELECT job.id FROM jobs_job AS job
        WHERE %(owner)s::integer IS NULL AND job.status = 'pending' AND job.lane_id = together.id
          AND job.id <> ALL (%(but_for)s::bigint[])
        ORDER BY job.run_at, job.id LIMIT %(limit)s::bigint) AS one
    UNION
    SELECT job.id FROM together JOIN jobs_job AS job
      ON job.ended_at IS NULL AND job.lease_secret IS NULL AND job.owner_id = %(owner)s::integer
     AND job.queue = together.queue AND job.lane_id = together.id
    UNION
    SELECT job.id FROM together CROSS JOIN auth_user_groups AS membership JOIN jobs_job AS job
      ON job.ended_at IS NULL AND job.lease_secret IS NULL AND job.group_id = membership.group_id
     AND job.queue = together.queue AND job.lane_id = together.id
    WHERE membership.user_id = %(owner)s::integer
    LIMIT %(limit)s::bigint
)
SELECT job.id, job.kind, job.queue FROM jobs_job AS job
WHERE job.id = ANY (ARRAY(SELECT waiting.id FROM waiting)) AND job.ended_at IS NULL AND job.lease_secret IS NULL
ORDER BY job.id FOR UPDATE SKIP LOCKED
