-- The lanes of the queue: each (kind, queue, priority) that has rows, found by jumping from one to the next in the index,
-- however many rows each has, due or not.
CREATE VIEW scheduling_lane AS
WITH RECURSIVE lane (kind, queue, priority) AS (
    (SELECT kind, queue, priority FROM scheduling_due ORDER BY kind, queue, priority LIMIT 1)
    UNION ALL
    SELECT following.kind, following.queue, following.priority
    FROM lane CROSS JOIN LATERAL (
        SELECT due.kind, due.queue, due.priority FROM scheduling_due AS due
        WHERE (due.kind, due.queue, due.priority) > (lane.kind, lane.queue, lane.priority)
        ORDER BY due.kind, due.queue, due.priority LIMIT 1) AS following
)
SELECT kind, queue, priority FROM lane;
-- Reverse
DROP VIEW scheduling_lane;
