-- What a cluster's workers get next: due functions of some lanes (queue and priority), the most urgent first.
-- Nothing is written. Whoever runs a function takes its row out of the queue, in the transaction that starts it
-- (a mutation's own): so two clusters that were given the same function run it once, and the row of a process that
-- dies lies where it was. Both places (ctid) go along, so that a mutation reaches its rows without an index: an index
-- read in a serializable transaction makes it collide with its neighbours.
-- Every lane is a range of one index, read in its order and no further than the limit, whatever the statistics say:
-- after a vacuum of the empty queue they say that nothing waits. A lane begins where the caller says (`since`): what
-- lies before is known to be done, and may be a pile of dead index entries. `excluded` are in this cluster's hands.
-- While the oldest wait for longer than `behind_s`, up to `fresh` of those that became due lately come with them, the
-- latest first: new work does not wait for a backlog of the same priority. A part of one is drawn: rounded up, a cluster
-- with one free worker would run new work alone. With several clusters each scans a larger window and prefers its own
-- share (by id) of it; what others leave lying fills the window, and is taken by whoever sees it.
WITH lane AS MATERIALIZED (
    SELECT queue, priority, coalesce(since_at, '-infinity') AS since_at, since_id
    FROM unnest(%(queue)s::text[], %(priority)s::smallint[], %(since_at)s::timestamptz[], %(since_id)s::bigint[])
        AS lane (queue, priority, since_at, since_id)
), oldest AS MATERIALIZED (
    SELECT head.*, first_value(head.next_at) OVER own AS lane_at, first_value(head.function_id) OVER own AS lane_id
    FROM (
        SELECT due.* FROM lane CROSS JOIN LATERAL (
            SELECT d.ctid AS due_pointer, d.function_id, d.queue, d.priority, d.next_at, d.deaths, d.collisions
            FROM scheduling_due AS d
            WHERE d.kind = %(kind)s::text AND d.queue = lane.queue AND d.priority = lane.priority
              AND (d.next_at, d.function_id) >= (lane.since_at, lane.since_id) AND d.next_at <= statement_timestamp()
              AND d.function_id <> ALL (%(excluded)s::bigint[])
            ORDER BY d.next_at, d.function_id LIMIT %(limit)s::bigint * %(clusters)s::bigint) AS due
        ORDER BY due.priority DESC, due.next_at, due.function_id
        LIMIT %(limit)s::bigint * %(clusters)s::bigint) AS head
    WINDOW own AS (PARTITION BY head.queue, head.priority ORDER BY head.next_at, head.function_id)
), backlog AS MATERIALIZED (
    SELECT min(priority) AS priority, floor(%(fresh)s::float8 + random())::bigint * %(clusters)s::bigint AS fresh FROM oldest
    HAVING count(*) >= %(limit)s::bigint * %(clusters)s::bigint
       AND min(next_at) < statement_timestamp() - make_interval(secs => %(behind_s)s::float8)
), newest AS MATERIALIZED (
    SELECT due.* FROM backlog JOIN lane ON lane.priority >= backlog.priority CROSS JOIN LATERAL (
        SELECT d.ctid AS due_pointer, d.function_id, d.queue, d.priority, d.next_at, d.deaths, d.collisions
        FROM scheduling_due AS d
        WHERE d.kind = %(kind)s::text AND d.queue = lane.queue AND d.priority = lane.priority
          AND d.next_at > statement_timestamp() - make_interval(secs => %(fresh_s)s::float8)
          AND d.next_at <= statement_timestamp() AND d.function_id <> ALL (%(excluded)s::bigint[])
        ORDER BY d.next_at DESC, d.function_id DESC LIMIT backlog.fresh) AS due
    ORDER BY due.priority DESC, due.next_at DESC, due.function_id DESC
    LIMIT (SELECT fresh FROM backlog)
), chosen AS MATERIALIZED (
    SELECT * FROM (
        SELECT newest.*, NULL::timestamptz AS lane_at, NULL::bigint AS lane_id, true AS is_fresh FROM newest
        UNION ALL
        SELECT oldest.*, false FROM oldest WHERE oldest.function_id NOT IN (SELECT function_id FROM newest)
    ) AS candidate
    ORDER BY function_id %% %(clusters)s::bigint <> %(rank)s::bigint, is_fresh DESC, priority DESC, next_at, function_id
    LIMIT %(limit)s::bigint
)
SELECT c.function_id AS id, c.due_pointer::text AS due_pointer,
       (SELECT f.ctid::text FROM scheduling_scheduledfunction AS f WHERE f.id = c.function_id) AS row_pointer,
       c.deaths, c.collisions, c.queue, c.priority, c.lane_at, c.lane_id
FROM chosen AS c
ORDER BY c.priority DESC, c.is_fresh DESC, c.next_at, c.function_id
