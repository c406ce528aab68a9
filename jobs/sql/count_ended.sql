-- Of each group of jobs how many ended in success, and how many otherwise; those that are deleted count with these.
SELECT member.key, count(*) FILTER (WHERE job.status = 'success')::int AS succeeded,
       count(*) FILTER (WHERE job.id IS NULL OR job.status IN ('canceled', 'failed', 'timed_out'))::int AS failed
FROM unnest(%(key)s::int[], %(id)s::bigint[]) AS member (key, id)
LEFT JOIN jobs_job AS job ON job.id = member.id
GROUP BY member.key
