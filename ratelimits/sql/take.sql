-- Ask a limit that lies in one row, and take from it if it grants: one statement, one round trip, the database's clock.
-- The clock is read before any wait for a lock. The functions clamp it: a late one takes nothing, gives nothing twice.
-- The function stands in a list of columns and not in FROM, which would store its row away first: a tenth of the work of
-- the server. OFFSET 0 keeps the three columns from being three calls.
-- The configuration is one parameter and not seven: binding them in Python took longer than deciding.
SELECT (result).granted, (result).retry_after_ms, (result).remaining
FROM (SELECT ratelimits_take(
    %(name)s, %(key)s, 0, 1, (%(config)s::ratelimits_config).is_window, (%(config)s::ratelimits_config).rate,
    (%(config)s::ratelimits_config).period_ms, (%(config)s::ratelimits_config).most,
    (%(config)s::ratelimits_config).floor, (%(config)s::ratelimits_config).start_ms,
    %(count)s, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, random()
) AS result OFFSET 0) AS answer;
