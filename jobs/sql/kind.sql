-- The kind that a person made under this name, and the version of its row, for who remembers it (docs/adr/0115).
SELECT xmin::text AS version, name, queue, max_attempts, backoff_first_s, backoff_base, backoff_cap_s, timeout_s, expires_s,
       retry_when_lost, retry_on_timeout, priority, "limit", limit_count, limit_key, concurrency, concurrency_key, on_overflow,
       keep_content, redact, requires::text AS requires
FROM jobs_kind WHERE name = %(name)s::text
