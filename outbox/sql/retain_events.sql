-- Delete events that are old and that no message is left of. One that still waits,
-- at an endpoint that is paused, keeps its event.
WITH old AS MATERIALIZED (
    SELECT event.id FROM outbox_event AS event
    WHERE event.created_at < statement_timestamp() - make_interval(secs => %(age_s)s::float8)
      AND NOT EXISTS (SELECT FROM outbox_message AS message WHERE message.event_id = event.id)
    ORDER BY event.created_at, event.id LIMIT %(limit)s::bigint OFFSET %(skip)s::bigint
)
DELETE FROM outbox_event USING old WHERE outbox_event.id = old.id RETURNING outbox_event.id
