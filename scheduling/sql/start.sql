-- Start an action: the one who takes it out of the queue, and still holds its hand-out, may run it. Committed before
-- it runs, and matching only `pending`: it never starts twice.
WITH gone AS (
    DELETE FROM scheduling_due WHERE function_id = %(id)s AND handed_by = %(boot)s::uuid RETURNING function_id
)
UPDATE scheduling_scheduledfunction AS f
SET state = 'in_progress', started_at = clock_timestamp(), handed_by = %(boot)s::uuid, ran_by = %(ran_by)s
FROM gone WHERE f.id = gone.function_id AND f.state = 'pending'
RETURNING f.*
