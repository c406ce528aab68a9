-- Take a mutation out of the queue, inside the serializable transaction that runs it, and read what to call.
-- Both rows are reached by place and id, never by an index (see dispatch). No row: it was done, canceled or postponed
-- meanwhile, or another transaction holds it. `function` is null when the row moved: it needs another scan.
WITH gone AS (
    DELETE FROM scheduling_due
    WHERE ctid = (
        SELECT ctid FROM scheduling_due
        WHERE ctid = %(due_pointer)s::tid AND function_id = %(id)s
        FOR UPDATE SKIP LOCKED)
    RETURNING function_id
)
SELECT g.function_id AS id, f.function, f.args::text AS args, f.task_backend, f.attempt
FROM gone AS g LEFT JOIN LATERAL (
    SELECT * FROM scheduling_scheduledfunction WHERE ctid = %(row_pointer)s::tid AND id = g.function_id AND status = 'pending'
) AS f ON true
