-- How a job stands, which claim it is at, and how many pieces of output that one wrote: what a call that waits for the
-- job needs, at each change of it.
SELECT status, fence, next_seq
FROM jobs_job
WHERE id = %(job)s::bigint
