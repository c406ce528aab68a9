-- Start an action: the one who takes it out of the queue may run it. Committed before it runs, and matching only
-- `pending`: it never starts twice. SKIP LOCKED: what another process starts at this moment is its. A cluster that the
-- others gave up starts nothing more, since they have ended what it ran as unknown. `is_again`: the answer to a start was
-- lost, and what this process has started and never began is still its.
WITH gone AS (
    DELETE FROM scheduling_due
    WHERE function_id = (
        SELECT function_id FROM scheduling_due
        WHERE function_id = %(id)s
          AND NOT EXISTS (SELECT FROM scheduling_cluster WHERE cluster_id = %(cluster_id)s::uuid AND ended_at IS NOT NULL)
        FOR UPDATE SKIP LOCKED)
    RETURNING function_id
)
UPDATE scheduling_scheduledfunction AS f
SET status = 'in_progress', started_at = clock_timestamp(), cluster_id = %(cluster_id)s::uuid, ran_by = %(ran_by)s
WHERE f.id = %(id)s
  AND (f.status = 'pending' AND EXISTS (SELECT FROM gone) OR %(is_again)s::boolean AND f.status = 'in_progress'
       AND f.cluster_id = %(cluster_id)s::uuid AND f.ran_by = %(ran_by)s)
RETURNING f.id, f.function, f.kind, f.queue, f.priority, f.args::text AS args, f.task_backend, f.status, f.parent_id,
          f.retry_of_id, f.run_again_of_id, f.attempt, f.cron_id, f.fire_at, f.created_at, f.run_at, f.started_at,
          f.ended_at, f.cluster_id, f.ran_by, f.error, f.error_class, f.traceback
