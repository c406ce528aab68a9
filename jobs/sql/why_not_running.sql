-- What stands between a waiting job and a worker: the facts, in one row. Counting stops at the given limit.
WITH job AS MATERIALIZED (
    SELECT * FROM jobs_job WHERE id = %(job)s::bigint
), eligible AS MATERIALIZED (
    SELECT worker.id, worker.id = ANY (job.shy_of) AS shy
    FROM job JOIN jobs_worker AS worker
      ON worker.revoked_at IS NULL
     AND worker.last_seen_at > statement_timestamp() - make_interval(secs => %(alive_s)s::float8)
     AND (job.queue = ANY (worker.queues) OR worker.steals && ARRAY[job.queue, '*']::varchar[])
     AND (worker.owner_id IS NULL OR worker.owner_id = job.owner_id OR EXISTS (
         SELECT FROM auth_user_groups AS membership
         WHERE membership.user_id = worker.owner_id AND membership.group_id = job.group_id))
)
SELECT job.status, job.queue, job.run_at, job.shy_until,
       greatest(extract(epoch FROM job.run_at - statement_timestamp()), 0)::float8 AS due_in_s,
       job.limit_name, job.limit_until,
       greatest(extract(epoch FROM job.limit_until - statement_timestamp()), 0)::float8 AS limit_in_s,
       queue.paused_at IS NOT NULL AS paused, queue.ceiling,
       ARRAY(SELECT slot.job_id FROM jobs_slot AS slot
             WHERE slot.queue_id = job.queue AND slot.job_id IS NOT NULL ORDER BY slot.n) AS running,
       (SELECT count(*) FROM eligible) AS workers,
       (SELECT count(*) FROM eligible WHERE shy) AS shy_workers,
       (SELECT count(*) FROM (
           SELECT FROM jobs_job AS other
           WHERE other.status = 'pending' AND other.queue = job.queue AND other.run_at <= statement_timestamp()
             AND other.id <> job.id
             AND (other.priority > job.priority
                  OR other.priority = job.priority AND (other.run_at, other.id) < (job.run_at, job.id))
           ORDER BY other.shy_of, other.priority DESC, other.run_at  -- as the index has it: without, a LIMIT invites a scan
           LIMIT %(limit)s::bigint) AS counted) AS ahead
FROM job LEFT JOIN jobs_queue AS queue ON queue.name = job.queue
