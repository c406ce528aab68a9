-- Give leased messages back untried: their endpoint is to be left alone for a while, or the sender ends.
UPDATE outbox_message AS message SET lease = NULL, next_attempt_at = statement_timestamp()
FROM unnest(%(id)s::bigint[], %(lease)s::uuid[]) AS returned (id, lease)
WHERE message.id = returned.id AND message.lease = returned.lease
