-- Count a refused request in its hour. Nothing else is kept of it.
INSERT INTO webhooks_refusal AS known (source, reason, hour, count, last_at, last_address, last_bytes, last_header_names)
VALUES (%(source)s::text, %(reason)s::text, date_trunc('hour', clock_timestamp(), 'UTC'), 1, clock_timestamp(),
        %(address)s::text::inet, %(bytes)s, %(header_names)s::jsonb)
ON CONFLICT (source, reason, hour) DO UPDATE SET
    count = known.count + 1, last_at = excluded.last_at, last_address = excluded.last_address,
    last_bytes = excluded.last_bytes, last_header_names = excluded.last_header_names
