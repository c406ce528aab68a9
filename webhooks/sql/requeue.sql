-- Let deliveries wait for a first attempt again, and say where each lies now, so that whoever processes it need not look
-- for it by an index, which makes neighbours collide (docs/adr/0010). Without their jobs only those start some of which
-- no attempt has ended well yet.
UPDATE webhooks_delivery SET
    status = 'received', attempts = 0, next_attempt_at = NULL, note = NULL,
    starts_jobs = %(with_jobs)s OR (starts_jobs AND status <> ALL(%(ended_well)s::text[])),
    start_round = start_round + %(with_jobs)s::boolean::integer
WHERE id = ANY(%(ids)s::bigint[])
RETURNING id, ctid::text AS row_pointer
