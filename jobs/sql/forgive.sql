-- The grace is over: workers that failed these jobs may have them again.
UPDATE jobs_job SET shy_of = '{}', shy_until = NULL
WHERE id IN (
    SELECT id FROM jobs_job
    WHERE status = 'pending' AND shy_until <= statement_timestamp()
    ORDER BY id LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED)
  AND status = 'pending'
RETURNING id, queue
