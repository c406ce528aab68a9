-- The same for a limit that lies in several rows.
SELECT granted, retry_after_ms, remaining
FROM ratelimits_take_sharded(
    %(name)s, %(key)s, %(config)s::ratelimits_config, %(count)s, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
);
