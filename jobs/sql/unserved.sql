-- For the doctor: queues in which a due job waits, whether they are paused, whether a live worker serves them, and
-- (where none does: which are live and drained, and which of all was heard of last), and
-- whether a job waits that none of those workers may take: each of them serves the jobs of its owner, and of the
-- owner's groups; and the first requirement of labels (a negative number in a set) that none of them satisfies.
-- A live worker serves the queues that it asks for (note_polled.sql), and none while it is drained or once its owner may
-- not log in any more.
-- Waiting jobs are ordered by whom they hide from and by priority: these pairs are jumped over, a hundred of them at
-- most, so that jobs due later cost nothing. Of each pair the 200 that are due longest are looked at: what nobody may
-- take stays there, and all before it is taken.
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
), due AS MATERIALIZED (
    SELECT name, excluded_workers, priority FROM head WHERE run_at <= statement_timestamp()
)
SELECT queue.name, queue.paused_at IS NOT NULL AS paused, serving.workers, serving.workers > 0 AS served,
       idle.drained_ids, idle.drained, last.last_worker, last.last_seen_at,
       serving.workers > 0 AND NOT serving.somebody_serves_all AND EXISTS (
           SELECT FROM due CROSS JOIN LATERAL (
               SELECT job.owner_id, job.group_id FROM jobs_job AS job
               WHERE job.status = 'pending' AND job.queue = due.name AND job.excluded_workers = due.excluded_workers
                 AND job.priority = due.priority AND job.run_at <= statement_timestamp()
               ORDER BY job.run_at, job.id LIMIT 200) AS job
           WHERE due.name = queue.name
             AND NOT coalesce(job.owner_id = ANY (serving.owners), false)
             AND NOT coalesce(job.group_id = ANY (serving.groups), false)) AS out_of_scope,
       CASE WHEN serving.workers > 0 THEN (
           SELECT requirement.requires FROM due JOIN jobs_requirement AS requirement ON requirement.id = -due.excluded_workers[1]
           WHERE due.name = queue.name AND NOT EXISTS (
               SELECT FROM jobs_worker AS worker
               WHERE worker.id = ANY (serving.ids) AND jobs_takes_until(
                   due.excluded_workers[1:1], worker.satisfies, 0, %(alive_s)s::float8) IS NOT NULL)
           ORDER BY requirement.id LIMIT 1) END AS lacking
FROM jobs_queue AS queue CROSS JOIN LATERAL (
    SELECT count(DISTINCT worker.id) AS workers, coalesce(bool_or(worker.owner_id IS NULL), false) AS somebody_serves_all,
           array_agg(DISTINCT worker.id) AS ids, array_agg(worker.owner_id) AS owners, array_agg(membership.group_id) AS groups
    FROM jobs_worker AS worker
    LEFT JOIN auth_user AS person ON person.id = worker.owner_id
    LEFT JOIN auth_user_groups AS membership ON membership.user_id = worker.owner_id
    WHERE worker.revoked_at IS NULL AND worker.drained_at IS NULL AND coalesce(person.is_active, true)
      AND worker.last_seen_at > statement_timestamp() - make_interval(secs => %(alive_s)s::float8)
      AND (queue.name = ANY (worker.queues) OR worker.steals && ARRAY[queue.name, '*']::varchar[])
      AND (worker.polled_queues IS NULL OR worker.polled_queues && ARRAY[queue.name, '*']::varchar[])) AS serving
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(worker.id ORDER BY worker.name, worker.id), '{}') AS drained_ids,
           coalesce(array_agg(worker.name ORDER BY worker.name, worker.id), '{}') AS drained
    FROM jobs_worker AS worker LEFT JOIN auth_user AS person ON person.id = worker.owner_id
    WHERE serving.workers = 0 AND worker.revoked_at IS NULL AND worker.drained_at IS NOT NULL AND coalesce(person.is_active, true)
      AND worker.last_seen_at > statement_timestamp() - make_interval(secs => %(alive_s)s::float8)
      AND (queue.name = ANY (worker.queues) OR worker.steals && ARRAY[queue.name, '*']::varchar[])
      AND (worker.polled_queues IS NULL OR worker.polled_queues && ARRAY[queue.name, '*']::varchar[])) AS idle
LEFT JOIN LATERAL (
    SELECT worker.name AS last_worker, worker.last_seen_at FROM jobs_worker AS worker
    WHERE serving.workers = 0
      AND worker.last_seen_at <= statement_timestamp() - make_interval(secs => %(alive_s)s::float8)
      AND (queue.name = ANY (worker.queues) OR worker.steals && ARRAY[queue.name, '*']::varchar[])
    ORDER BY worker.last_seen_at DESC, worker.id LIMIT 1) AS last ON true
WHERE queue.name IN (SELECT name FROM due)
ORDER BY queue.name
