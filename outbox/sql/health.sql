-- What of the outbox waits and is dead, each counted up to ten thousand; how many endpoints the farm paused; for how long
-- one of the others has taken nothing; and for how long the message has been due that could have been sent longest ago.
-- None of which an earlier one of its subject waits, of an endpoint that is to be left alone, or one with requests under
-- way counts for that: it waits for its receiver.
SELECT
    (SELECT count(*) FROM (
         SELECT FROM outbox_message WHERE status = 'pending' AND next_attempt_at IS NOT NULL LIMIT 10000) AS counted) AS waiting,
    (SELECT count(*) FROM (SELECT FROM outbox_message WHERE status = 'dead' LIMIT 10000) AS counted) AS dead,
    (SELECT count(*) FROM outbox_endpoint WHERE status = 'paused' AND failing_since IS NOT NULL) AS paused,
    (SELECT coalesce(extract(epoch FROM statement_timestamp() - min(failing_since)), 0)::float8
     FROM outbox_endpoint WHERE status = 'active') AS failing_s,
    (SELECT coalesce(max(extract(epoch FROM statement_timestamp()
         - greatest(due.next_attempt_at, endpoint.held_until))), 0)::float8
     FROM outbox_endpoint AS endpoint CROSS JOIN LATERAL (
         SELECT one.next_attempt_at FROM outbox_message AS one
         WHERE one.endpoint_id = endpoint.id AND one.status = 'pending' AND one.next_attempt_at <= statement_timestamp()
           AND (SELECT earlier.id FROM outbox_message AS earlier
                WHERE earlier.endpoint_id = one.endpoint_id AND earlier.subject = one.subject
                  AND earlier.status = 'pending' AND earlier.id < one.id
                ORDER BY earlier.id DESC LIMIT 1) IS NULL
         ORDER BY one.next_attempt_at LIMIT 1
     ) AS due
     WHERE endpoint.status = 'active'
       AND (endpoint.held_until IS NULL OR endpoint.held_until <= statement_timestamp())
       AND NOT EXISTS (
           SELECT FROM outbox_message AS held
           WHERE held.endpoint_id = endpoint.id AND held.lease IS NOT NULL
             AND held.next_attempt_at > statement_timestamp())) AS oldest_due_s
