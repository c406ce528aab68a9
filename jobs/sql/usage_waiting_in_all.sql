-- How many jobs wait in all, counted up to a limit.
SELECT count(*) AS waiting FROM (SELECT FROM jobs_job WHERE status = 'pending' LIMIT %(limit)s::bigint) AS counted
