-- How many jobs each of these workers has to do: those that it runs, and those that wait and prefer it.
SELECT worker.id, (
           SELECT count(*) FROM jobs_live AS live WHERE live.lease_secret IS NOT NULL AND live.worker_id = worker.id) + (
           SELECT count(*) FROM jobs_requirement AS one JOIN jobs_live AS live ON live.requirement_id = one.id
           WHERE one.id = ANY (worker.satisfies) AND one.prefers ? '@worker' AND live.lease_secret IS NULL) AS jobs
FROM jobs_worker AS worker WHERE worker.id = ANY (%(workers)s::bigint[])
