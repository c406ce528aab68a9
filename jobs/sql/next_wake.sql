-- Seconds until the janitor has something to do; null: nothing in sight. Each part reads its own small partial index.
SELECT extract(epoch FROM least(
    (SELECT min(least(lease_expires_at, deadline_at)) FROM jobs_job WHERE status = 'in_progress'),
    (SELECT min(expires_at) FROM jobs_job WHERE status = 'pending' AND expires_at IS NOT NULL),
    (SELECT min(shy_until) FROM jobs_job WHERE status = 'pending' AND shy_until IS NOT NULL)
) - statement_timestamp())::float8 AS seconds
