-- Which of these jobs another live worker could take, that is not among those that the job is to avoid? A worker counts as
-- live while it was seen within alive_s, its owner may log in and it is not drained; it takes from the queues that it asks
-- for (note_polled.sql), which may be fewer than its key allows, and what its labels satisfy.
SELECT job.job_id
FROM unnest(%(job)s::bigint[], %(queue)s::text[], %(owner)s::integer[], %(group)s::integer[], %(requirement)s::integer[],
            %(avoid)s::text[]) AS job (job_id, queue, owner_id, group_id, requirement_id, avoid)
WHERE EXISTS (
    SELECT FROM jobs_worker AS worker LEFT JOIN auth_user AS person ON person.id = worker.owner_id
    WHERE worker.revoked_at IS NULL AND worker.drained_at IS NULL AND coalesce(person.is_active, true)
      AND worker.last_seen_at > statement_timestamp() - make_interval(secs => %(alive_s)s::float8)
      AND NOT worker.id = ANY (job.avoid::bigint[])
      AND jobs_takes_until(coalesce(job.requirement_id, 0), worker.satisfies, 0, %(alive_s)s::float8) IS NOT NULL
      AND (job.queue = ANY (worker.queues) OR worker.steals && ARRAY[job.queue, '*']::varchar[])
      AND (worker.polled_queues IS NULL OR worker.polled_queues && ARRAY[job.queue, '*']::varchar[])
      AND (worker.owner_id IS NULL OR worker.owner_id = job.owner_id OR EXISTS (
          SELECT FROM auth_user_groups AS membership
          WHERE membership.user_id = worker.owner_id AND membership.group_id = job.group_id)))
