-- Forget up to `limit` rows that are full again: no row says the same. One that somebody is using is left for later.
-- A window is forgotten one period later than it is full. The next use draws new edges; drawn at once, they could lie
-- so that the key got a whole capacity more than its windows allow.
-- A row that cannot be computed holds nothing, and keeps no other from being forgotten.
-- The ids go on as an array, which is made once: a list to be in may be made anew for each row, past the limit.
DELETE FROM ratelimits_bucket
WHERE id = ANY (ARRAY(
    SELECT id FROM ratelimits_bucket
    WHERE CASE WHEN period_ms > 0 AND period_ms < 1e18 AND rate < 1e280 AND abs(ts::float8) < 1e18 THEN most <= ratelimits_value(
        value, ts,
        floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint
            - CASE WHEN is_window THEN period_ms ELSE 0 END::bigint,
        is_window, rate, period_ms, most) ELSE true END
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED
))
RETURNING id;
