-- domain.refilled. A clock that goes back moves nothing. A moment that lies further ahead than an hour, and than one
-- window, is of a clock that had jumped: such a row is read as one that was never used, full from now on. Else nothing
-- would come in until that moment comes again.
CREATE OR REPLACE FUNCTION ratelimits_grown(
    value float8, ts bigint, now_ms bigint, step_ms float8, rate float8, per float8, most float8
) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN ts - now_ms > GREATEST(step_ms, 3600000) THEN most
                ELSE LEAST(most, value + GREATEST(floor((now_ms - ts) / step_ms), 0) * rate / per) END
$$;
CREATE OR REPLACE FUNCTION ratelimits_moved(ts bigint, now_ms bigint, step_ms float8)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN ts - now_ms BETWEEN 1 AND GREATEST(step_ms, 3600000) THEN ts
                ELSE ts + (floor((now_ms - ts) / step_ms) * step_ms)::bigint END
$$;

-- Reverse
CREATE OR REPLACE FUNCTION ratelimits_grown(
    value float8, ts bigint, now_ms bigint, step_ms float8, rate float8, per float8, most float8
) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT LEAST(most, value + GREATEST(floor((now_ms - ts) / step_ms), 0) * rate / per)
$$;
CREATE OR REPLACE FUNCTION ratelimits_moved(ts bigint, now_ms bigint, step_ms float8)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ts + (GREATEST(floor((now_ms - ts) / step_ms), 0) * step_ms)::bigint
$$;
