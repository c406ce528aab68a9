-- End waiting jobs whose time to start has passed.
UPDATE jobs_job SET status = 'timed_out', ended_at = statement_timestamp()
WHERE id IN (
    SELECT id FROM jobs_job
    WHERE status = 'pending' AND expires_at <= statement_timestamp()
    ORDER BY id LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED)
  AND status = 'pending'
RETURNING id
