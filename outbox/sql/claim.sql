-- Lease messages that are due: of each endpoint as many as it has room for, and of all of them the first of each endpoint
-- before the second of any, so that a backlog of one delays no other; of all endpoints of one owner no more than a share, so
-- that twenty which hang leave room for everybody else's. One of which an earlier message of the same subject
-- waits is not taken: what happened to a job arrives in order. Each message is asked for that by itself: a join was
-- planned to read all that waits. No order is asked for but the index's: thousands may be due since one moment. Who takes
-- one moves its next attempt past the lease, so that what a sender that was killed had becomes due again by itself.
-- What is due at an endpoint that is disabled was under way when that happened, or written at that moment: it is dead.
WITH room AS MATERIALIZED (
    SELECT endpoint.id, endpoint.owner_id, greatest(0, %(per_endpoint)s::bigint - under_way.count) AS places,
           CASE WHEN endpoint.owner_id IS NULL THEN %(limit)s::bigint
                ELSE %(per_owner)s::bigint - sum(under_way.count) OVER (PARTITION BY endpoint.owner_id)
           END AS places_of_owner
    FROM outbox_endpoint AS endpoint CROSS JOIN LATERAL (
        SELECT count(*) FROM outbox_message AS held
        WHERE held.endpoint_id = endpoint.id AND held.lease IS NOT NULL
          AND held.next_attempt_at > statement_timestamp()) AS under_way
    WHERE endpoint.status = 'active'
      AND (endpoint.held_until IS NULL OR endpoint.held_until <= statement_timestamp())
), due AS MATERIALIZED (
    SELECT message.id, room.owner_id, room.places_of_owner,
           row_number() OVER (PARTITION BY room.id ORDER BY message.next_attempt_at, message.id) AS place
    FROM room CROSS JOIN LATERAL (
        SELECT one.id, one.next_attempt_at
        FROM outbox_message AS one
        WHERE one.endpoint_id = room.id AND one.status = 'pending' AND one.next_attempt_at <= statement_timestamp()
          AND (SELECT earlier.id FROM outbox_message AS earlier
               WHERE earlier.endpoint_id = one.endpoint_id AND earlier.subject = one.subject
                 AND earlier.status = 'pending' AND earlier.id < one.id
               ORDER BY earlier.id DESC LIMIT 1) IS NULL
        ORDER BY one.next_attempt_at
        LIMIT room.places
        FOR UPDATE SKIP LOCKED
    ) AS message
), refused AS (
    UPDATE outbox_message
    SET status = 'dead', next_attempt_at = NULL, lease = NULL, ended_at = statement_timestamp(), note = 'Its endpoint is disabled.'
    WHERE id = ANY (ARRAY(
        SELECT message.id FROM outbox_endpoint AS endpoint CROSS JOIN LATERAL (
            SELECT one.id FROM outbox_message AS one
            WHERE one.endpoint_id = endpoint.id AND one.status = 'pending' AND one.next_attempt_at < statement_timestamp()
            LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED) AS message
        WHERE endpoint.status = 'disabled'))
), shared AS (
    SELECT id, place, places_of_owner, row_number() OVER (PARTITION BY owner_id ORDER BY place, id) AS place_of_owner
    FROM due
), chosen AS (
    SELECT id FROM shared WHERE place_of_owner <= places_of_owner ORDER BY place, id LIMIT %(limit)s::bigint
), claimed AS (
    UPDATE outbox_message AS message
    SET lease = gen_random_uuid(), next_attempt_at = statement_timestamp() + make_interval(secs => %(lease_s)s::float8)
    FROM chosen WHERE message.id = chosen.id
    RETURNING message.id, message.lease, message.event_id, message.endpoint_id, message.attempts
)
SELECT claimed.id, claimed.lease, claimed.endpoint_id, claimed.attempts, endpoint.url, endpoint.per_minute,
       event.uid, event.type, event.subject, event.occurred_at,
       CASE WHEN endpoint.with_result THEN coalesce(event.body_with_result, event.body) ELSE event.body END AS body
FROM claimed
JOIN outbox_endpoint AS endpoint ON endpoint.id = claimed.endpoint_id
JOIN outbox_event AS event ON event.id = claimed.event_id
ORDER BY claimed.id
