-- How many jobs wait in all, counted up to a limit.
SELECT count(*) AS waiting FROM (SELECT FROM jobs_live WHERE lease_secret IS NULL LIMIT %(limit)s::bigint) AS counted
