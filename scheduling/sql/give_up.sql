-- End the running actions of a cluster, or of one of its processes, as unknown: whoever ran them is dead, and nobody
-- knows how far they came. SKIP LOCKED: one whose outcome, or cancel, is being written right now is left to that.
WITH lost AS (
    SELECT id FROM scheduling_scheduledfunction
    WHERE status = 'in_progress' AND cluster_id = %(cluster_id)s::uuid
      AND (%(ran_by)s::text IS NULL OR ran_by = %(ran_by)s::text)
    ORDER BY id
    FOR UPDATE SKIP LOCKED
)
UPDATE scheduling_scheduledfunction AS f
SET status = 'unknown', ended_at = clock_timestamp(), error = %(error)s, error_class = %(error_class)s
FROM lost WHERE f.id = lost.id
RETURNING f.id, f.function, f.kind, f.queue, f.priority, f.task_backend, f.status, f.parent_id,
          f.retry_of_id, f.run_again_of_id, f.attempt, f.cron_id, f.fire_at, f.created_at, f.run_at, f.started_at,
          f.ended_at, f.cluster_id, f.ran_by, f.error, f.error_class
