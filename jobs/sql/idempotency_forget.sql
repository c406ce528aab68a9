-- Delete the oldest keys that are no longer kept. One that a new request takes over at this moment is passed by.
DELETE FROM jobs_idempotencykey WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM jobs_idempotencykey
    WHERE created_at < statement_timestamp() - make_interval(secs => %(age_s)s::float8)
    ORDER BY created_at LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED))
RETURNING key
