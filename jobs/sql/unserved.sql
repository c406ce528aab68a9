-- For the doctor: queues in which a due job waits, whether they are paused, and whether a live worker serves them.
SELECT queue.name, queue.paused_at IS NOT NULL AS paused, EXISTS (
           SELECT FROM jobs_worker AS worker
           WHERE worker.revoked_at IS NULL
             AND worker.last_seen_at > statement_timestamp() - make_interval(secs => %(alive_s)s::float8)
             AND (queue.name = ANY (worker.queues) OR worker.steals && ARRAY[queue.name, '*']::varchar[])) AS served
FROM jobs_queue AS queue
WHERE EXISTS (
    SELECT FROM jobs_job AS job
    WHERE job.status = 'pending' AND job.queue = queue.name AND job.run_at <= statement_timestamp())
ORDER BY queue.name
