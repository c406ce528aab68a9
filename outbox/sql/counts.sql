-- How many messages of each endpoint wait, and are dead, counted up to a bound; and when one was delivered last.
SELECT endpoint.id,
       (SELECT count(*) FROM (
           SELECT FROM outbox_message AS message
           WHERE message.endpoint_id = endpoint.id AND message.status = 'pending' AND message.next_attempt_at IS NOT NULL
           LIMIT %(most)s::bigint) AS one)::int
           AS waiting,
       (SELECT count(*) FROM (
           SELECT FROM outbox_message AS message
           WHERE message.endpoint_id = endpoint.id AND message.status = 'dead' LIMIT %(most)s::bigint) AS one)::int AS dead,
       (SELECT message.ended_at FROM outbox_message AS message
        WHERE message.endpoint_id = endpoint.id AND message.status = 'delivered'
        ORDER BY message.id DESC LIMIT 1) AS last_delivered_at
FROM outbox_endpoint AS endpoint
WHERE endpoint.id = ANY (%(ids)s::bigint[])
