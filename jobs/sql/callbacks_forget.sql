-- Forget addresses that came with jobs which have ended, the oldest first: nothing more is sent there of those, so they
-- hold the address's endpoint no longer. What somebody else deletes at this moment is left to them.
DELETE FROM outbox_callback WHERE id = ANY (ARRAY(
    SELECT callback.id FROM outbox_callback AS callback
    WHERE NOT EXISTS (SELECT FROM jobs_live AS live WHERE live.job_id = callback.job_id)
    ORDER BY callback.created_at LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED))
RETURNING id
