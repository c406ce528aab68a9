-- Count refused requests in their hour. Nothing else is kept of them.
INSERT INTO webhooks_refusal AS known (source, reason, hour, count, last_at, last_address, last_bytes, last_header_names)
VALUES (%(source)s::text, %(reason)s::text, date_trunc('hour', clock_timestamp(), 'UTC'), %(times)s, clock_timestamp(),
        %(address)s::text::inet, %(bytes)s, %(header_names)s::jsonb)
ON CONFLICT (source, reason, hour) DO UPDATE SET
    count = known.count + excluded.count, last_at = excluded.last_at, last_address = excluded.last_address,
    last_bytes = excluded.last_bytes, last_header_names = excluded.last_header_names
