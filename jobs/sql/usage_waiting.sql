-- How many jobs of an owner wait, counted up to a limit, along the index of what can be claimed of them.
SELECT count(*) AS waiting
FROM (
    SELECT FROM jobs_queue AS queue
    CROSS JOIN LATERAL (
        SELECT FROM jobs_live AS job
        WHERE job.lease_secret IS NULL AND job.queue = queue.name AND job.owner_id = %(owner)s::integer
    ) AS waiting
    LIMIT %(limit)s::bigint
) AS counted
