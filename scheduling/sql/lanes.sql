-- The lanes of the queue for one kind: each (queue, priority) that has rows, found by jumping from one to the next in
-- the index, however many rows each has, due or not.
WITH RECURSIVE lane (queue, priority) AS (
    (SELECT queue, priority FROM scheduling_due WHERE kind = %(kind)s::text ORDER BY queue, priority LIMIT 1)
    UNION ALL
    SELECT following.queue, following.priority
    FROM lane CROSS JOIN LATERAL (
        SELECT due.queue, due.priority FROM scheduling_due AS due
        WHERE due.kind = %(kind)s::text AND (due.queue, due.priority) > (lane.queue, lane.priority)
        ORDER BY due.queue, due.priority LIMIT 1) AS following
)
SELECT queue, priority FROM lane
WHERE %(queues)s::text[] IS NULL OR queue = ANY (%(queues)s::text[])
ORDER BY priority DESC, queue
