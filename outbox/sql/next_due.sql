-- In how many seconds something becomes due that is not yet: a retry, or an endpoint that is to be left alone until then.
SELECT extract(epoch FROM min(moment) - statement_timestamp())::float8 AS in_s
FROM (
    SELECT greatest(message.next_attempt_at, endpoint.held_until) AS moment
    FROM outbox_endpoint AS endpoint CROSS JOIN LATERAL (
        SELECT one.next_attempt_at FROM outbox_message AS one
        WHERE one.endpoint_id = endpoint.id AND one.status = 'pending' AND one.next_attempt_at IS NOT NULL
          AND (one.next_attempt_at > statement_timestamp() OR endpoint.held_until > statement_timestamp())
        ORDER BY one.next_attempt_at LIMIT 1
    ) AS message
    WHERE endpoint.status = 'active'
) AS due
