-- Delete messages that ended long enough ago, with their attempts:
-- a batch at a time.
WITH old AS MATERIALIZED (
    SELECT message.id FROM outbox_message AS message
    WHERE message.ended_at < statement_timestamp() - make_interval(secs => %(age_s)s::float8)
    ORDER BY message.ended_at, message.id LIMIT %(limit)s::bigint OFFSET %(skip)s::bigint
), history AS (
    DELETE FROM outbox_attempt USING old WHERE outbox_attempt.message_id = old.id
)
DELETE FROM outbox_message USING old WHERE outbox_message.id = old.id RETURNING outbox_message.id
