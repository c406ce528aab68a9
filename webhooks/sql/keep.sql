-- Store deliveries given as columns of equal length; those that are there already are left out (under their id, or
-- under their body's digest where ids are not signed). So are those whose secret was retired meanwhile: processes
-- remember secrets, and this is where it is made sure that they are right.
-- In one order, so that two who store the same deliveries do not wait for each other in a circle.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(
        %(source)s::text[], %(delivery_id)s::text[], %(event_type)s::text[], %(status)s::text[], %(note)s::text[],
        %(body)s::bytea[], %(body_sha256)s::bytea[], %(headers)s::text[], %(address)s::text[], %(secret)s::bigint[],
        %(sandbox)s::text[], %(occurred_at)s::timestamptz[]
    ) AS input(
        source, delivery_id, event_type, status, note, body, body_sha256, headers, address, secret, sandbox, occurred_at)
)
INSERT INTO webhooks_delivery (
    source, delivery_id, event_type, status, note, body, body_bytes, body_sha256, headers, address, secret_id, sandbox,
    occurred_at, received_at, ended_at, attempts, tries, duplicates)
SELECT source, delivery_id, event_type, status, note, body, length(body), body_sha256, headers::jsonb, address::inet,
       secret, sandbox, occurred_at, clock_timestamp(), CASE WHEN status = 'rejected' THEN clock_timestamp() END, 0, 0, 0
FROM input
WHERE secret IS NULL OR EXISTS (
    SELECT FROM webhooks_secret AS live
    WHERE live.id = input.secret AND (live.retired_at IS NULL OR live.retired_at > clock_timestamp()))
ORDER BY source, delivery_id
ON CONFLICT DO NOTHING
RETURNING id, ctid::text AS row_pointer, source, delivery_id, status
