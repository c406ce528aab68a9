-- Write events, and a message to each endpoint that asks for one; of what nobody asks for nothing is written.
-- An endpoint without an owner gets the whole farm's events; one with an owner those of the owner's jobs and groups, as
-- long as the owner may log in. One that was named when a job was submitted gets that job's. The body is made here, once:
-- the same bytes are sent and signed at each attempt.
WITH new AS MATERIALIZED (
    SELECT uid, type, patterns::varchar[] AS patterns, subject, job_id, kind, owner_id, group_id,
           coalesce(occurred_at, statement_timestamp()) AS occurred_at, data, data_with_result, place
    FROM unnest(
        %(uid)s::uuid[], %(type)s::text[], %(patterns)s::text[], %(subject)s::text[], %(job_id)s::bigint[],
        %(kind)s::text[], %(owner_id)s::integer[], %(group_id)s::integer[], %(occurred_at)s::timestamptz[],
        %(data)s::text[], %(data_with_result)s::text[]
    ) WITH ORDINALITY AS e (
        uid, type, patterns, subject, job_id, kind, owner_id, group_id, occurred_at, data, data_with_result, place)
), request AS MATERIALIZED (
    SELECT new.uid, endpoint.id AS endpoint_id, endpoint.with_result
    FROM new CROSS JOIN outbox_endpoint AS endpoint
    WHERE endpoint.status <> 'disabled'
      AND CASE WHEN %(only)s::bigint IS NOT NULL THEN endpoint.id = %(only)s::bigint
               WHEN NOT endpoint.events && new.patterns
                    OR NOT (endpoint.kinds = '{}' OR coalesce(new.kind = ANY (endpoint.kinds), false)) THEN false
               WHEN endpoint.is_callback THEN EXISTS (
                   SELECT FROM outbox_callback AS callback
                   WHERE callback.job_id = new.job_id AND callback.endpoint_id = endpoint.id)
               WHEN endpoint.owner_id IS NULL THEN true
               ELSE (endpoint.owner_id = new.owner_id OR EXISTS (
                        SELECT FROM auth_user_groups AS member
                        WHERE member.user_id = endpoint.owner_id AND member.group_id = new.group_id))
                    AND (SELECT is_active FROM auth_user WHERE auth_user.id = endpoint.owner_id)
          END
), event AS (
    INSERT INTO outbox_event (uid, type, subject, occurred_at, body, body_with_result, created_at)
    SELECT uid, type, subject, occurred_at,
           json_build_object('type', type, 'timestamp', moment, 'data', data::json)::text,
           CASE WHEN data_with_result IS NOT NULL
                     AND EXISTS (SELECT FROM request WHERE request.uid = new.uid AND request.with_result)
                THEN json_build_object('type', type, 'timestamp', moment, 'data', data_with_result::json)::text END,
           statement_timestamp()
    FROM new, to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS moment
    WHERE uid IN (SELECT request.uid FROM request)
    ORDER BY place
    RETURNING id, uid, subject
)
INSERT INTO outbox_message (event_id, endpoint_id, subject, status, attempts, tries, next_attempt_at, note, created_at)
SELECT event.id, request.endpoint_id, event.subject, 'pending', 0, 0, statement_timestamp(), '', statement_timestamp()
FROM event JOIN request USING (uid)
ORDER BY event.id, request.endpoint_id
RETURNING id, endpoint_id
