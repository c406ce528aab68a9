-- Let the next of the subject of each of these messages that have ended be due now, if it only waited for that one. In a
-- statement after the one that ended them: put_behind may have locked one of them until then. One that somebody has
-- locked waits on.
WITH next AS MATERIALIZED (
    SELECT DISTINCT following.id
    FROM unnest(%(ids)s::bigint[]) AS given (id) CROSS JOIN LATERAL (
        SELECT one.id, one.endpoint_id, one.subject FROM outbox_message AS one WHERE one.id = given.id OFFSET 0
    ) AS ended CROSS JOIN LATERAL (
        SELECT one.id FROM outbox_message AS one
        WHERE one.endpoint_id = ended.endpoint_id AND one.subject = ended.subject AND one.status = 'pending'
          AND one.id > ended.id
        ORDER BY one.id LIMIT 1
    ) AS following
)
UPDATE outbox_message AS message SET next_attempt_at = statement_timestamp()
WHERE message.id = ANY (ARRAY(
    SELECT one.id FROM outbox_message AS one
    WHERE one.id = ANY (ARRAY(SELECT next.id FROM next)) AND one.attempts = 0 AND one.lease IS NULL
      AND one.next_attempt_at > statement_timestamp()
    FOR NO KEY UPDATE SKIP LOCKED))
