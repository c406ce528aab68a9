-- For the pages: every queue with how many of its jobs wait (counted up to a limit), how many run, and how many live
-- workers serve it that are not drained. With viewer 0 of everybody; otherwise of that person and their groups, each looked
-- up apart: an OR between them would read every waiting job of the queue. What is counted is ordered as its index is: with
-- a bare LIMIT the planner hopes to find enough in the whole table.
WITH membership AS MATERIALIZED (
    SELECT group_id FROM auth_user_groups WHERE user_id = %(viewer)s::bigint
), running AS MATERIALIZED (
    SELECT queue, count(*) AS jobs FROM jobs_live
    WHERE lease_secret IS NOT NULL
      AND (%(viewer)s::bigint = 0 OR owner_id = %(viewer)s::bigint OR group_id IN (SELECT group_id FROM membership))
    GROUP BY queue
), lane AS MATERIALIZED (
    SELECT queue, lane_id AS id FROM jobs_mark WHERE %(viewer)s::bigint = 0
    UNION
    SELECT queue, id FROM jobs_lane WHERE %(viewer)s::bigint = 0 AND held_for <> 0
), alive AS MATERIALIZED (
    SELECT queues, steals FROM jobs_live_workers(%(alive_s)s::float8) AS worker
    WHERE NOT is_drained AND (owner_id IS NULL OR %(viewer)s::bigint IN (0, owner_id))
)
SELECT queue.name, queue.paused_at, queue.ceiling, queue.of_key, queue.fair, queue.ages_after, coalesce(running.jobs, 0) AS running,
       (SELECT count(*) FROM alive
        WHERE queue.name = ANY (alive.queues) OR alive.steals && ARRAY[queue.name, '*']::varchar[]) AS workers,
       CASE WHEN %(viewer)s::bigint = 0 THEN (
           SELECT count(*) FROM (
               SELECT FROM lane CROSS JOIN LATERAL (
                   SELECT FROM jobs_live AS job WHERE job.lease_secret IS NULL AND job.lane_id = lane.id
                   ORDER BY job.run_at, job.job_id LIMIT %(limit)s::bigint) AS theirs
               WHERE lane.queue = queue.name LIMIT %(limit)s::bigint) AS everybodys)
       ELSE (
           SELECT count(*) FROM (
               (SELECT job.job_id FROM jobs_live AS job
                WHERE job.lease_secret IS NULL AND job.queue = queue.name AND job.owner_id = %(viewer)s::bigint
                LIMIT %(limit)s::bigint)
               UNION
               (SELECT job.job_id FROM jobs_live AS job
                WHERE job.lease_secret IS NULL AND job.queue = queue.name
                  AND job.group_id IN (SELECT group_id FROM membership)
                LIMIT %(limit)s::bigint)
               LIMIT %(limit)s::bigint) AS theirs)
       END AS pending
FROM jobs_queue AS queue LEFT JOIN running ON running.queue = queue.name
WHERE %(name)s::text = '' OR queue.name = %(name)s::text
ORDER BY queue.name LIMIT %(queues)s::bigint
