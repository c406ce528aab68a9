-- The kind that a person made under this name. Every submit of one of its jobs reads it.
SELECT name, queue, max_attempts, backoff_first_s, backoff_base, backoff_cap_s, timeout_s, expires_s,
       retry_when_lost, retry_on_timeout, priority, "limit", limit_count, limit_key, requires::text AS requires
FROM jobs_kind WHERE name = %(name)s::text
