-- For the notifier: per interest (queues, and whose jobs; owner null: everybody's) how many jobs could be claimed now, counted
-- up to a limit, and in how many seconds the next becomes due, if that is within the horizon. The queue * is every queue.
-- Who failed a job is for the claim to see. Of a concurrency key of a queue no more count, in however many lanes, than it has
-- room for. `satisfies`: the requirements that the waiting worker's labels meet; where it
-- lacks what is preferred alone, what has been due for a head start is its (until).
WITH interest AS MATERIALIZED (
    SELECT place, string_to_array(queues, ',') AS queues, owner_id, wanted, satisfies::integer[] AS satisfies
    FROM unnest(%(queues)s::text[], %(owner)s::integer[], %(wanted)s::bigint[], %(satisfies)s::text[])
         WITH ORDINALITY AS i (queues, owner_id, wanted, satisfies, place)
), polled AS MATERIALIZED (
    SELECT interest.*, queue.name,
           CASE WHEN queue.ceiling IS NULL THEN interest.wanted ELSE least(interest.wanted, greatest(0, queue.ceiling - (
               SELECT count(*) FROM jobs_live WHERE counted_in = queue.name))) END AS room
    FROM interest JOIN jobs_queue AS queue
      ON queue.paused_at IS NULL AND (queue.name = ANY (interest.queues) OR '*' = ANY (interest.queues))
), lane AS MATERIALIZED (
    SELECT polled.place, polled.name, mark.lane_id, mark.key_id, min(mark.at) AS at,
           least(statement_timestamp(), min(coalesce(jobs_takes_until(
               mark.requirement_id, polled.satisfies, %(head_start_s)s::float8, %(alive_s)s::float8), '-infinity'))) AS until
    FROM polled JOIN jobs_mark AS mark
      ON mark.queue = polled.name AND mark.at <= statement_timestamp() + make_interval(secs => %(horizon_s)s::float8)
     AND (polled.owner_id IS NULL OR mark.owner_id = polled.owner_id OR mark.group_id IN (
         SELECT membership.group_id FROM auth_user_groups AS membership WHERE membership.user_id = polled.owner_id))
     AND (mark.required_id = 0 OR mark.required_id = ANY (polled.satisfies))
    GROUP BY polled.place, polled.name, mark.lane_id, mark.key_id
), key AS MATERIALIZED (
    SELECT place, name, key_id, array_agg(lane_id) AS lanes, array_agg(at) AS moments, array_agg(until) AS ends
    FROM lane GROUP BY place, name, key_id
), due AS (
    SELECT polled.place, (
        SELECT count(*) FROM (
            SELECT FROM key
            CROSS JOIN LATERAL (
                SELECT least(polled.room, CASE WHEN key.key_id <> 0 THEN jobs_key_left(key.key_id) END) AS jobs OFFSET 0) AS room
            CROSS JOIN LATERAL (
                SELECT FROM unnest(key.lanes, key.moments, key.ends) AS lane (id, at, until)
                CROSS JOIN LATERAL jobs_due(lane.id, lane.at, lane.until, room.jobs) LIMIT room.jobs) AS theirs
            WHERE key.place = polled.place AND key.name = polled.name LIMIT polled.room) AS counted) AS jobs
    FROM polled
), later AS (
    SELECT lane.place, min(next.run_at + (statement_timestamp() - lane.until)) AS at
    FROM lane CROSS JOIN LATERAL jobs_due(
        lane.lane_id, lane.until + interval '1 microsecond', lane.until + make_interval(secs => %(horizon_s)s::float8), 1) AS next
    GROUP BY lane.place
)
SELECT interest.place,
       least(coalesce((SELECT sum(due.jobs) FROM due WHERE due.place = interest.place), 0), interest.wanted)::bigint AS jobs,
       CASE WHEN later.at IS NOT NULL  -- greatest() takes null for nothing and would say 0
            THEN greatest(extract(epoch FROM later.at - statement_timestamp()), 0)::float8 END AS next_due_in_s
FROM interest LEFT JOIN later USING (place)
ORDER BY interest.place
