-- For each queue with jobs that are due: since how many seconds the one that waits longest has been. Waiting jobs are
-- ordered by whom they hide from and by priority, so within one such pair the first is the oldest: the pairs are jumped
-- over, a hundred of them at most, and no waiting job behind the first of a pair is read.
WITH RECURSIVE head (name, excluded_workers, priority, run_at, step) AS (
    SELECT queue.name, first.excluded_workers, first.priority, first.run_at, 1
    FROM jobs_queue AS queue CROSS JOIN LATERAL (
        SELECT job.excluded_workers, job.priority, job.run_at FROM jobs_job AS job
        WHERE job.status = 'pending' AND job.queue = queue.name
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
SELECT name AS queue, extract(epoch FROM statement_timestamp() - min(run_at))::float8 AS oldest_s
FROM head WHERE run_at <= statement_timestamp() GROUP BY name
