-- Whether a row lies in the queue that should have been dispatched a while ago, and that nobody works on: a mutation
-- that runs holds its row's lock. The oldest of each lane (queue and priority).
SELECT head.function_id
FROM unnest(%(queue)s::text[], %(priority)s::smallint[]) AS lane (queue, priority) CROSS JOIN LATERAL (
    SELECT due.function_id FROM scheduling_due AS due
    WHERE due.kind = %(kind)s::text AND due.queue = lane.queue AND due.priority = lane.priority
      AND due.next_at <= statement_timestamp() - make_interval(secs => %(late_s)s::float8)
    ORDER BY due.next_at, due.function_id
    LIMIT 1
    FOR UPDATE SKIP LOCKED) AS head
LIMIT 1
