-- Lock deliveries that are to be processed, in a serializable transaction. One is reached by where it lies: a look-up by an
-- index there makes neighbours collide (docs/adr/0010). No row: it lies somewhere else by now, since a duplicate was counted
-- or it was replayed, and is looked up by its id. What somebody else has is left out of many. {which} is from the code.
SELECT id, ctid::text AS row_pointer, source, delivery_id, event_type, status, body, headers ->> 'content-type' AS content_type,
       sandbox, occurred_at, received_at, attempts, tries, clock_timestamp() AS now, starts_jobs, start_round,
       EXISTS (SELECT FROM webhooks_rule AS rule WHERE rule.source = webhooks_delivery.source AND rule.is_enabled) AS has_rules
FROM webhooks_delivery WHERE {which}
