-- Let these jobs start, which the caller has locked and which wait for nothing more.
SELECT job_id AS id, queue, due_at, is_later FROM jobs_let_go(%(ids)s::bigint[])
