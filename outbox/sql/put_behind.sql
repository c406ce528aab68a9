-- Have what waits for an earlier message of its subject be due later, so that no claim looks at it again: of each endpoint
-- those of the first that are due. The nearest earlier one is locked meanwhile, so that its end (settle) comes after this
-- and lets it be due at once, by a lock under which unblock may make that one due itself; a moment is set all the same, for
-- whatever else ends it. Only what is pending has a next attempt: to ask for that leads to the primary key, and to ask for
-- the status to all that is pending.
-- One that was tried before is behind a replay, and begins anew with it: by its `attempts` unblock knows who waits for a retry.
WITH behind AS MATERIALIZED (
    SELECT message.id
    FROM outbox_endpoint AS endpoint CROSS JOIN LATERAL (
        SELECT one.id, one.subject FROM outbox_message AS one
        WHERE one.endpoint_id = endpoint.id AND one.status = 'pending' AND one.next_attempt_at <= statement_timestamp()
        ORDER BY one.next_attempt_at LIMIT %(most)s::bigint
    ) AS due CROSS JOIN LATERAL (
        SELECT one.id FROM outbox_message AS one
        WHERE one.endpoint_id = endpoint.id AND one.subject = due.subject AND one.status = 'pending' AND one.id < due.id
        ORDER BY one.id DESC LIMIT 1
    ) AS nearest
    CROSS JOIN LATERAL (
        SELECT FROM outbox_message AS one WHERE one.id = nearest.id AND one.next_attempt_at IS NOT NULL
        FOR KEY SHARE SKIP LOCKED
    ) AS earlier CROSS JOIN LATERAL (
        SELECT one.id FROM outbox_message AS one WHERE one.id = due.id AND one.next_attempt_at <= statement_timestamp()
        FOR UPDATE SKIP LOCKED
    ) AS message
    WHERE endpoint.status = 'active' AND (endpoint.held_until IS NULL OR endpoint.held_until <= statement_timestamp())
)
UPDATE outbox_message AS message
SET next_attempt_at = statement_timestamp() + make_interval(secs => %(again_s)s::float8), attempts = 0, lease = NULL
FROM behind WHERE message.id = behind.id
RETURNING message.id
