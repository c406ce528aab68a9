-- Write how an action ended, if it is still ours to say: not canceled, not given up as unknown.
UPDATE scheduling_scheduledfunction
SET status = %(status)s, ended_at = clock_timestamp(), result = %(result)s::text::jsonb, error = %(error)s,
    error_class = %(error_class)s, traceback = %(traceback)s
WHERE id = %(id)s AND status = 'in_progress' AND cluster_id = %(cluster_id)s::uuid AND ran_by = %(ran_by)s
RETURNING id, function, kind, queue, priority, task_backend, status, parent_id, retry_of_id,
          run_again_of_id, attempt, cron_id, fire_at, created_at, run_at, started_at, ended_at, cluster_id, ran_by,
          error, error_class
