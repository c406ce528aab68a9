-- For autoscalers: every queue, or one, with how many of its jobs are due and wait (counted up to a limit), since how
-- many seconds the first of them has been due, and how many run, also on
-- drained workers alone. Waiting jobs are ordered by whom they hide from and by
-- priority, and within one such pair by when they are due: the pairs are jumped over, a hundred at most, and in each
-- those that are due are counted from its first, so no job that is due later is read.
WITH RECURSIVE chosen AS MATERIALIZED (
    SELECT name, paused_at, ceiling FROM jobs_queue
    WHERE %(name)s::text = '' OR name = %(name)s::text
    ORDER BY name LIMIT %(queues)s::bigint
), running AS MATERIALIZED (
    SELECT queue, count(*) AS jobs,
           count(*) FILTER (WHERE worker_id IN (SELECT id FROM jobs_worker WHERE drained_at IS NOT NULL)) AS draining
    FROM jobs_job
    WHERE status = 'in_progress' AND (%(name)s::text = '' OR queue = %(name)s::text) GROUP BY queue
), head (name, excluded_workers, priority, run_at, step) AS (
    SELECT chosen.name, first.excluded_workers, first.priority, first.run_at, 1
    FROM chosen CROSS JOIN LATERAL (
        SELECT job.excluded_workers, job.priority, job.run_at FROM jobs_job AS job
        WHERE job.status = 'pending' AND job.queue = chosen.name
        ORDER BY job.excluded_workers, job.priority DESC, job.run_at, job.id LIMIT 1) AS first
    UNION ALL
    SELECT head.name, further.excluded_workers, further.priority, further.run_at, head.step + 1
    FROM head CROSS JOIN LATERAL (
        SELECT * FROM (
            (SELECT job.excluded_workers, job.priority, job.run_at FROM jobs_job AS job
             WHERE job.status = 'pending' AND job.queue = head.name AND job.excluded_workers = head.excluded_workers
               AND job.priority < head.priority
             ORDER BY job.priority DESC, job.run_at LIMIT 1)
            UNION ALL
            (SELECT job.excluded_workers, job.priority, job.run_at FROM jobs_job AS job
             WHERE job.status = 'pending' AND job.queue = head.name AND job.excluded_workers > head.excluded_workers
             ORDER BY job.excluded_workers, job.priority DESC, job.run_at LIMIT 1)
        ) AS one_of_two
        ORDER BY excluded_workers, priority DESC LIMIT 1) AS further
    WHERE head.step < 100
)
SELECT chosen.name, chosen.paused_at IS NOT NULL AS is_paused, chosen.ceiling,
       coalesce(running.jobs, 0) AS running, coalesce(running.draining, 0) AS draining,
       (SELECT count(*) FROM (
            SELECT FROM head CROSS JOIN LATERAL (
                SELECT FROM jobs_job AS job
                WHERE job.status = 'pending' AND job.queue = head.name
                  AND job.excluded_workers = head.excluded_workers AND job.priority = head.priority
                  AND job.run_at <= statement_timestamp()
                  AND (job.expires_at IS NULL OR job.expires_at > statement_timestamp() OR job.confirmed_fence > 0)
                ORDER BY job.excluded_workers, job.priority DESC, job.run_at, job.id
                LIMIT %(limit)s::bigint) AS theirs
            WHERE head.name = chosen.name AND head.run_at <= statement_timestamp()
            LIMIT %(limit)s::bigint) AS due) AS waiting,
       coalesce((SELECT extract(epoch FROM statement_timestamp() - min(head.run_at))::float8 FROM head
                 WHERE head.name = chosen.name AND head.run_at <= statement_timestamp()), 0) AS oldest_wait_s
FROM chosen LEFT JOIN running ON running.queue = chosen.name ORDER BY chosen.name
