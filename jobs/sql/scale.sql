-- For autoscalers and metrics: every queue, or one, with how many of its jobs are due and wait (counted up to a limit), since
-- how many seconds the first of them has been due, and how many run, also on drained workers alone. The longest wait is
-- looked for in the 32 lanes with the first marks: nothing in a lane has waited longer than its mark says. Of a concurrency
-- key no more of them wait, in however many lanes, than it has room for.
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
    SELECT lane.key_id AS id, jobs_key_left(lane.key_id) AS room FROM lane WHERE lane.key_id <> 0 GROUP BY lane.key_id
), free AS MATERIALIZED (
    SELECT lane.* FROM lane LEFT JOIN key ON key.id = lane.key_id WHERE key.room IS NULL
), bound AS MATERIALIZED (
    SELECT one.queue, sum(least(one.jobs, one.room))::bigint AS jobs FROM (
        SELECT lane.queue, key.room, sum(due.jobs) AS jobs FROM lane JOIN key ON key.id = lane.key_id AND key.room > 0
        CROSS JOIN LATERAL (
            SELECT count(*) AS jobs FROM jobs_due(lane.lane_id, lane.at, statement_timestamp(), key.room)) AS due
        GROUP BY lane.queue, key.id, key.room) AS one GROUP BY one.queue
)
SELECT queue.name, queue.paused_at IS NOT NULL AS is_paused, queue.ceiling,
       coalesce(running.jobs, 0) AS running, coalesce(running.draining, 0) AS draining,
       least(%(limit)s::bigint, coalesce(bound.jobs, 0) + (
           SELECT count(*) FROM (
               SELECT FROM free CROSS JOIN LATERAL jobs_due(free.lane_id, free.at, statement_timestamp(), %(limit)s::bigint)
               WHERE free.queue = queue.name LIMIT %(limit)s::bigint) AS due)) AS waiting,
       coalesce((SELECT extract(epoch FROM statement_timestamp() - min(head.run_at))::float8
                 FROM lane CROSS JOIN LATERAL jobs_due(lane.lane_id, lane.at, statement_timestamp(), 1) AS head
                 WHERE lane.queue = queue.name AND lane.place <= 32), 0) AS oldest_wait_s
FROM jobs_queue AS queue LEFT JOIN running ON running.queue = queue.name LEFT JOIN bound ON bound.queue = queue.name
WHERE %(name)s::text = '' OR queue.name = %(name)s::text
ORDER BY queue.name LIMIT %(queues)s::bigint
