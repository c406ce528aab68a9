-- Keep what became of a delivery that met a rule. No row comes back if that was kept before: whoever asks takes back the
-- job that it submitted in this transaction. That is the second guard, behind the lock of the delivery.
INSERT INTO webhooks_jobstart (delivery_id, rule_id, rule_key, rule_name, kind, round, outcome, job_id, error, at)
VALUES (%(delivery)s, %(rule)s, %(rule_key)s::text, %(rule_name)s::text, %(kind)s::text, %(round)s::integer,
        %(outcome)s::text, %(job)s, %(error)s::text, clock_timestamp())
ON CONFLICT (delivery_id, rule_key, round) DO NOTHING
RETURNING id
