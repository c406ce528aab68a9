-- Write what attempts came to, where their leases still hold: the message goes on, and the attempt is kept. One that
-- somebody has locked keeps its lease, and has no status here.
WITH result AS MATERIALIZED (
    SELECT * FROM unnest(
        %(id)s::bigint[], %(lease)s::uuid[], %(status)s::text[], %(wait_s)s::float8[], %(outcome)s::text[],
        %(started_at)s::timestamptz[], %(duration_ms)s::bigint[], %(http_status)s::smallint[], %(error)s::text[],
        %(answer)s::text[], %(note)s::text[]
    ) AS r (id, lease, status, wait_s, outcome, started_at, duration_ms, http_status, error, answer, note)
), held AS MATERIALIZED (
    SELECT message.id FROM outbox_message AS message JOIN result ON result.id = message.id AND result.lease = message.lease
    ORDER BY message.id FOR UPDATE OF message SKIP LOCKED
), settled AS (
    UPDATE outbox_message AS message
    SET status = result.status, attempts = message.attempts + 1, tries = message.tries + 1, lease = NULL,
        next_attempt_at = CASE WHEN result.status = 'pending'
                               THEN statement_timestamp() + make_interval(secs => result.wait_s) END,
        ended_at = CASE WHEN result.status <> 'pending' THEN statement_timestamp() END,
        note = result.note
    FROM held JOIN result ON result.id = held.id
    WHERE message.id = held.id
    RETURNING message.id, message.tries, message.status
), history AS (
    INSERT INTO outbox_attempt (message_id, number, started_at, duration_ms, outcome, http_status, error, answer)
    SELECT settled.id, settled.tries, result.started_at, result.duration_ms, result.outcome, result.http_status,
           result.error, result.answer
    FROM settled JOIN result ON result.id = settled.id
)
SELECT message.id, settled.status FROM outbox_message AS message
JOIN result ON result.id = message.id AND result.lease = message.lease LEFT JOIN settled ON settled.id = message.id
