-- How a job stands, which claim it is at, and how many pieces of output that one wrote: what a call that waits for the
-- job needs, at each change of it.
SELECT status, fence, next_seq FROM jobs_outcome WHERE job_id = %(job)s::bigint
UNION ALL
SELECT CASE WHEN lease_secret IS NULL THEN 'pending' ELSE 'in_progress' END, fence, next_seq
FROM jobs_live WHERE job_id = %(job)s::bigint
