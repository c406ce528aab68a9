-- For the doctor queues in which a due job waits, for a queue's page that one: whether they are paused, how many live workers
-- serve them, and (where none does: which are live and drained, and which of all was heard of last), and whether a due job waits
-- that none of those workers may take: nobody of its scope (out_of_scope), or nobody with what it requires of labels (lacking).
-- Lanes say what is required and, in queues that keep owners apart, whose the jobs are; elsewhere no live worker is bound
-- to a member's jobs. Of each lane one due job is looked for: a mark may lag. Of one that all owners share still, where
-- the queue keeps them apart by now (part.sql), the first thousand say whose they are.
-- A worker serves the queues that it asks for (note_polled.sql), and none while it is drained.
WITH due AS MATERIALIZED (
    SELECT DISTINCT awake.queue, awake.requirement_id, awake.required_id,
           CASE WHEN awake.is_shared THEN head.owner_id ELSE awake.owner_id END AS owner_id,
           CASE WHEN awake.is_shared THEN head.group_id ELSE awake.group_id END AS group_id
    FROM (
        SELECT DISTINCT ON (mark.lane_id) mark.*, queue.by_owner AND NOT one.is_apart AS is_shared
        FROM jobs_mark AS mark JOIN jobs_lane AS one ON one.id = mark.lane_id JOIN jobs_queue AS queue ON queue.name = mark.queue
        WHERE mark.at <= statement_timestamp() AND %(queue)s::text IN ('', mark.queue)
        ORDER BY mark.lane_id, mark.at, mark.id) AS awake
    CROSS JOIN LATERAL jobs_due(
        awake.lane_id, awake.at, statement_timestamp(), CASE WHEN awake.is_shared THEN 1000 ELSE 1 END) AS head
), listed AS MATERIALIZED (
    SELECT queue AS name FROM due UNION SELECT %(queue)s::text WHERE %(queue)s::text <> ''
), worker AS MATERIALIZED (
    SELECT * FROM jobs_live_workers(%(alive_s)s::float8) AS live
), serving AS MATERIALIZED (
    SELECT queue.name AS queue, worker.* FROM jobs_queue AS queue JOIN worker
      ON ARRAY[queue.name, '*']::varchar[] && (worker.queues || worker.steals)
     AND (worker.polled IS NULL OR worker.polled && ARRAY[queue.name, '*']::varchar[])
    WHERE queue.name IN (SELECT listed.name FROM listed)
), judged AS (
    SELECT due.queue, due.requirement_id,
           bool_or(coalesce(serving.owner_id IS NULL OR serving.owner_id = due.owner_id OR due.group_id = ANY (serving.groups),
                            false)) AS in_scope,
           due.required_id = 0 OR bool_or(due.required_id = ANY (serving.satisfies)) AS is_met
    FROM due JOIN serving ON serving.queue = due.queue AND NOT serving.is_drained
    GROUP BY due.queue, due.owner_id, due.group_id, due.requirement_id, due.required_id
)
SELECT queue.name, queue.paused_at IS NOT NULL AS paused, live.workers, live.workers > 0 AS served,
       CASE WHEN live.workers = 0 THEN live.drained_ids ELSE '{}' END AS drained_ids,
       CASE WHEN live.workers = 0 THEN live.drained ELSE '{}' END AS drained, last.last_worker, last.last_seen_at,
       EXISTS (SELECT FROM judged WHERE judged.queue = queue.name AND NOT judged.in_scope) AS out_of_scope,
       (SELECT requirement.requires FROM judged JOIN jobs_requirement AS requirement ON requirement.id = judged.requirement_id
        WHERE judged.queue = queue.name AND NOT judged.is_met ORDER BY requirement.id LIMIT 1) AS lacking
FROM jobs_queue AS queue CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE NOT serving.is_drained) AS workers,
           coalesce(array_agg(serving.id ORDER BY serving.name, serving.id) FILTER (WHERE serving.is_drained), '{}') AS drained_ids,
           coalesce(array_agg(serving.name ORDER BY serving.name, serving.id) FILTER (WHERE serving.is_drained), '{}') AS drained
    FROM serving WHERE serving.queue = queue.name) AS live
LEFT JOIN LATERAL (
    SELECT worker.name AS last_worker, worker.last_seen_at FROM jobs_worker AS worker
    WHERE live.workers = 0
      AND worker.last_seen_at <= statement_timestamp() - make_interval(secs => %(alive_s)s::float8)
      AND (queue.name = ANY (worker.queues) OR worker.steals && ARRAY[queue.name, '*']::varchar[])
    ORDER BY worker.last_seen_at DESC, worker.id LIMIT 1) AS last ON true
WHERE queue.name IN (SELECT listed.name FROM listed)
ORDER BY queue.name
