-- Lock a delivery that is to be processed, in a serializable transaction. Reached by where it lies: a look-up by an
-- index there makes neighbours collide (docs/adr/0010). No row: it lies somewhere else by now, see take_by_id.
SELECT id, ctid::text AS row_pointer, source, delivery_id, event_type, status, body, headers ->> 'content-type' AS content_type,
       sandbox, occurred_at, received_at, attempts, tries, clock_timestamp() AS now, starts_jobs, start_round,
       EXISTS (SELECT FROM webhooks_rule AS rule WHERE rule.source = webhooks_delivery.source AND rule.is_enabled) AS has_rules
FROM webhooks_delivery WHERE ctid = %(row_pointer)s::tid AND id = %(id)s FOR UPDATE
