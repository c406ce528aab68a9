-- Of each group of jobs how many ended in success, and how many otherwise; those that are deleted count with these.
SELECT member.key, count(*) FILTER (WHERE outcome.status = 'success')::int AS succeeded,
       count(*) FILTER (WHERE outcome.status <> 'success' OR outcome.job_id IS NULL AND live.job_id IS NULL)::int AS failed
FROM unnest(%(key)s::int[], %(id)s::bigint[]) AS member (key, id)
LEFT JOIN jobs_outcome AS outcome ON outcome.job_id = member.id LEFT JOIN jobs_live AS live ON live.job_id = member.id
GROUP BY member.key
