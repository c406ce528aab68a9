-- The lanes of the queue for one kind (the view is in migrations/0005_lanes.sql), the highest priority first.
SELECT queue, priority FROM scheduling_lane
WHERE kind = %(kind)s::text AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s::text[]))
ORDER BY priority DESC, queue
