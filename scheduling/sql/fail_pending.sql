-- Write the failure of a function that has not left the queue: its effects are rolled back (a mutation), or it never
-- started (its function is not known). Whoever deletes the row of the queue has the say; no row: somebody else had.
WITH gone AS (
    DELETE FROM scheduling_due WHERE function_id = %(id)s RETURNING function_id
)
UPDATE scheduling_scheduledfunction AS f
SET status = 'failed', started_at = clock_timestamp() - make_interval(secs => %(elapsed_s)s::float8), ended_at = clock_timestamp(), error = %(error)s,
    error_class = %(error_class)s, traceback = %(traceback)s, cluster_id = %(cluster_id)s::uuid, ran_by = %(ran_by)s
FROM gone WHERE f.id = gone.function_id AND f.status = 'pending'
RETURNING f.id, f.cron_id
