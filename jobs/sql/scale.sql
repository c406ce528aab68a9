-- For autoscalers and metrics: every queue, or one, with how many of its jobs are due and wait (counted up to a limit), since
-- how many seconds the first of them has been due, and how many run, also on drained workers alone. The longest wait is
-- looked for in the 32 lanes with the first marks: nothing in a lane has waited longer than its mark says. Of a concurrency
-- key no more of them wait, in however many lanes, than it has room for; but of each queue, so a sum over queues may be more.
WITH running AS MATERIALIZED (
    SELECT queue, count(*) AS jobs,
           count(*) FILTER (WHERE worker_id IN (SELECT id FROM jobs_worker WHERE drained_at IS NOT NULL)) AS draining
    FROM jobs_live
    WHERE lease_secret IS NOT NULL AND (%(name)s::text = '' OR queue = %(name)s::text) GROUP BY queue
), lane AS MATERIALIZED (
    SELECT queue, lane_id, key_id, min(at) AS at, row_number() OVER (PARTITION BY queue ORDER BY min(at)) AS place
    FROM jobs_mark
    WHERE at <= statement_timestamp() AND (%(name)s::text = '' OR queue = %(name)s::text) GROUP BY queue, lane_id, key_id
), key AS MATERIALIZED (
    SELECT queue, key_id, array_agg(lane_id) AS lanes, array_agg(at) AS moments FROM lane GROUP BY queue, key_id
)
SELECT queue.name, queue.paused_at IS NOT NULL AS is_paused, queue.ceiling,
       coalesce(running.jobs, 0) AS running, coalesce(running.draining, 0) AS draining,
       (SELECT count(*) FROM (
            SELECT FROM key
            CROSS JOIN LATERAL (SELECT least(%(limit)s::bigint, jobs_key_left(key.key_id)) AS jobs OFFSET 0) AS room
            CROSS JOIN LATERAL (
                SELECT FROM unnest(key.lanes, key.moments) AS lane (id, at)
                CROSS JOIN LATERAL jobs_due(lane.id, lane.at, statement_timestamp(), room.jobs) LIMIT room.jobs) AS due
            WHERE key.queue = queue.name LIMIT %(limit)s::bigint) AS due) AS waiting,
       coalesce((SELECT extract(epoch FROM statement_timestamp() - min(head.run_at))::float8
                 FROM lane CROSS JOIN LATERAL jobs_due(lane.lane_id, lane.at, statement_timestamp(), 1) AS head
                 WHERE lane.queue = queue.name AND lane.place <= 32), 0) AS oldest_wait_s
FROM jobs_queue AS queue LEFT JOIN running ON running.queue = queue.name
WHERE %(name)s::text = '' OR queue.name = %(name)s::text
ORDER BY queue.name LIMIT %(queues)s::bigint
