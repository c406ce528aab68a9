-- Insert scheduled functions given as columns of equal length, and put the pending ones into the queue.
-- In the caller's transaction: they exist if and only if it commits. No foreign key and no look-up by an index here,
-- so two serializable mutations that schedule side by side do not collide. A row inserted as canceled (its
-- parent is an action that was canceled) never enters the queue. A second firing of a cron for one fire time is left
-- out. The clock is read once: what is due after 0 seconds is due when it was made. Returns the rows in the order given.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(
        %(function)s::text[], %(kind)s::text[], %(queue)s::text[], %(priority)s::int[], %(args)s::text[],
        %(task_backend)s::text[], %(status)s::text[], %(delay_s)s::float8[], %(run_at)s::timestamptz[], %(parent)s::bigint[],
        %(retry_of)s::bigint[], %(run_again_of)s::bigint[], %(attempt)s::int[], %(cron)s::text[], %(fire_at)s::timestamptz[]
    ) WITH ORDINALITY AS input(
        function, kind, queue, priority, args, task_backend, status, delay_s, run_at, parent, retry_of, run_again_of,
        attempt, cron, fire_at, position)
    CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
), inserted AS (
    INSERT INTO scheduling_scheduledfunction (
        function, kind, queue, priority, args, task_backend, status, created_at, run_at, ended_at, parent_id,
        retry_of_id, run_again_of_id, attempt, cron_id, fire_at)
    SELECT function, kind, queue, priority, args::jsonb, task_backend, status, now,
           coalesce(run_at, now + make_interval(secs => delay_s)),
           CASE WHEN status = 'canceled' THEN now END,
           parent, retry_of, run_again_of, attempt, cron, fire_at
    FROM input ORDER BY position
    ON CONFLICT (cron_id, fire_at) WHERE cron_id IS NOT NULL AND attempt = 1 DO NOTHING
    RETURNING id, function, kind, queue, priority, args, task_backend, status, parent_id, retry_of_id,
              run_again_of_id, attempt, cron_id, fire_at, created_at, run_at, started_at, ended_at, cluster_id,
              ran_by, result, error, error_class, traceback
), queued AS (
    INSERT INTO scheduling_due (function_id, kind, queue, priority, run_at, next_at)
    SELECT id, kind, queue, priority, run_at, run_at FROM inserted WHERE status = 'pending'
)
SELECT * FROM inserted ORDER BY id
