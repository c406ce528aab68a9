-- The same for a limit that lies in several rows.
SELECT (result).granted, (result).retry_after_ms, (result).remaining
FROM (SELECT ratelimits_take_sharded(
    %(name)s, %(key)s, %(config)s::ratelimits_config, %(count)s, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
) AS result OFFSET 0) AS answer;
