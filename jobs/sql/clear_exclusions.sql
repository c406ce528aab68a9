-- The grace is over: workers that failed these jobs may have them again. What they require stays.
-- Their ids go on as an array, which is made once: as a list to be in, it may be made anew for each job of the table,
-- and each time finds the next ones, past the limit.
UPDATE jobs_job
SET excluded_workers = CASE WHEN requirement_id IS NULL THEN '{}' ELSE ARRAY[-requirement_id::bigint] END,
    excluded_until = NULL
WHERE id = ANY (ARRAY(
    SELECT id FROM jobs_job
    WHERE status = 'pending' AND excluded_until <= statement_timestamp()
    ORDER BY id LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED))
  AND status = 'pending'
RETURNING id, queue
