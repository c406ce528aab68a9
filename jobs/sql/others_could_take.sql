-- Which of these jobs another live worker could take, that is not among those that the job is to avoid? It takes from the
-- queues that it asks for (note_polled.sql), which may be fewer than its key allows, and what its labels satisfy.
WITH worker AS MATERIALIZED (
    SELECT * FROM jobs_live_workers(%(alive_s)s::float8) AS live WHERE NOT live.is_drained
)
SELECT job.job_id
FROM unnest(%(job)s::bigint[], %(queue)s::text[], %(owner)s::integer[], %(group)s::integer[], %(requirement)s::integer[],
            %(avoid)s::text[]) AS job (job_id, queue, owner_id, group_id, requirement_id, avoid)
WHERE EXISTS (
    SELECT FROM worker
    WHERE NOT worker.id = ANY (job.avoid::bigint[])
      AND jobs_takes_until(coalesce(job.requirement_id, 0), worker.satisfies, 0, %(alive_s)s::float8) IS NOT NULL
      AND (job.queue = ANY (worker.queues) OR worker.steals && ARRAY[job.queue, '*']::varchar[])
      AND (worker.polled IS NULL OR worker.polled && ARRAY[job.queue, '*']::varchar[])
      AND (worker.owner_id IS NULL OR worker.owner_id = job.owner_id OR job.group_id = ANY (worker.groups)))
