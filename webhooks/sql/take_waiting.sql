-- Lock deliveries of this list that still wait to be processed for the first time; what somebody else has is left out.
SELECT id, ctid::text AS row_pointer, source, delivery_id, event_type, status, body, headers ->> 'content-type' AS content_type,
       sandbox, occurred_at, received_at, attempts, tries, clock_timestamp() AS now, starts_jobs, start_round,
       EXISTS (SELECT FROM webhooks_rule AS rule WHERE rule.source = webhooks_delivery.source AND rule.is_enabled) AS has_rules
FROM webhooks_delivery
WHERE id = ANY(%(ids)s::bigint[]) AND status = 'received' ORDER BY id FOR UPDATE SKIP LOCKED
