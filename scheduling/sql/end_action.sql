-- Write how an action ended, if that is still to be said: it was not canceled, nor given up as unknown. It starts once, so
-- who says it is who started it.
UPDATE scheduling_scheduledfunction
SET status = %(status)s, ended_at = clock_timestamp(), result = %(result)s::text::jsonb, error = %(error)s,
    error_class = %(error_class)s, traceback = %(traceback)s
WHERE id = %(id)s AND status = 'in_progress'
RETURNING id, function, kind, queue, priority, task_backend, status, parent_id, retry_of_id,
          run_again_of_id, attempt, cron_id, fire_at, created_at, run_at, started_at, ended_at, cluster_id, ran_by,
          error, error_class
