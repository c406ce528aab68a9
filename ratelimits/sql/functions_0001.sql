-- The algebra of ratelimits/domain, where the rows are: one call decides, one round trip, first uses and hot keys safe.
-- Migration 0002 runs this file; a change goes into a new file and a new migration. Equal to Python by test (ADR 14).

-- A configuration, as one parameter of the statements that ask; rate and most are of the whole limit, times in ms.
CREATE TYPE ratelimits_config AS (
    is_window boolean, rate float8, period_ms float8, most float8, floor float8, start_ms bigint, shards integer
);

-- One limit that is asked: rate and most are of the whole limit, times in ms; floor NULL is debt without bound.
CREATE TYPE ratelimits_request AS (
    name text, key text, is_window boolean, rate float8, period_ms float8, most float8, floor float8,
    start_ms bigint, shards integer, count float8
);

-- What becomes of it: for each shard what it holds now, what is left of that, and from which moment on.
CREATE TYPE ratelimits_plan AS (
    granted boolean, retry_after_ms float8, held float8[], left_over float8[], moments bigint[]
);

-- domain.refilled, its value. Both kinds are one formula: a token bucket is a window of one millisecond that brings
-- rate / period_ms. Functions of one expression stand in place of their call; every node of it is set up anew for each
-- decision, and two formulas under a CASE took a fifth of its time.
CREATE FUNCTION ratelimits_grown(
    value float8, ts bigint, now_ms bigint, step_ms float8, rate float8, per float8, most float8
) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT LEAST(most, value + GREATEST(floor((now_ms - ts) / step_ms), 0) * rate / per)
$$;

-- domain.refilled, its moment. A clock that goes back moves nothing.
CREATE FUNCTION ratelimits_moved(ts bigint, now_ms bigint, step_ms float8)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ts + (GREATEST(floor((now_ms - ts) / step_ms), 0) * step_ms)::bigint
$$;

-- The two for a kind of limit.
CREATE FUNCTION ratelimits_value(
    value float8, ts bigint, now_ms bigint, is_window boolean, rate float8, period_ms float8, most float8
) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ratelimits_grown(value, ts, now_ms, CASE WHEN is_window THEN period_ms ELSE 1 END, rate,
                            CASE WHEN is_window THEN 1 ELSE period_ms END, most)
$$;
CREATE FUNCTION ratelimits_moment(ts bigint, now_ms bigint, is_window boolean, period_ms float8)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ratelimits_moved(ts, now_ms, CASE WHEN is_window THEN period_ms ELSE 1 END)
$$;

-- The moment of a row that is not there yet.
CREATE FUNCTION ratelimits_first_moment(
    now_ms bigint, is_window boolean, period_ms float8, start_ms bigint, draw float8
) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN NOT is_window THEN now_ms
        WHEN start_ms IS NULL THEN now_ms - floor(draw * period_ms)::bigint
        ELSE start_ms + (floor((now_ms - start_ms) / period_ms) * period_ms)::bigint END
$$;

-- domain.wait_ms, or NULL for what is not in debt.
CREATE FUNCTION ratelimits_wait(
    left_over float8, ts bigint, now_ms bigint, is_window boolean, rate float8, period_ms float8
) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN left_over >= 0 THEN NULL
        WHEN is_window THEN ts + period_ms * ceil(-left_over / rate) - now_ms
        ELSE ts - now_ms - left_over * period_ms / rate END
$$;

-- domain.sharded._until for more than one shard: when they hold together what was asked.
CREATE FUNCTION ratelimits_until(
    asked ratelimits_request, held float8[], moments bigint[], now_ms bigint
) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    share_rate CONSTANT float8 := asked.rate / asked.shards;
    share_most CONSTANT float8 := asked.most / asked.shards;
    periods float8;
    windows float8;
    enough CONSTANT float8 := asked.count - asked.most * 1e-12;
BEGIN
    SELECT max((asked.count - (nth - 1) * share_most - tail) / (asked.shards - nth + 1) / share_rate) INTO periods
    FROM (SELECT row_number() OVER (ORDER BY value DESC, n) AS nth,
                 sum(value) OVER (ORDER BY value DESC, n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS tail
          FROM unnest(held) WITH ORDINALITY AS shard (value, n)) AS lines;
    IF NOT asked.is_window THEN
        RETURN (SELECT max(ts) FROM unnest(moments) AS ts) - now_ms + periods * asked.period_ms;
    END IF;
    windows := ceil(periods - 1e-9);
    RETURN (
        SELECT COALESCE(min(ts) FILTER (WHERE total >= enough), max(ts)) + windows * asked.period_ms - now_ms
        FROM (SELECT ts, sum(before) OVER () + sum(LEAST(before + share_rate, share_most) - before)
                         OVER (ORDER BY ts, n ROWS UNBOUNDED PRECEDING) AS total
              FROM (SELECT ts, n, LEAST(value + share_rate * (windows - 1), share_most) AS before
                    FROM unnest(held, moments) WITH ORDINALITY AS shard (value, ts, n)) AS shards) AS edges
    );
END $$;

-- domain.evaluate_shards: whether the shards together grant what is asked, and what is left in each.
CREATE FUNCTION ratelimits_spread(
    asked ratelimits_request, held float8[], moments bigint[], now_ms bigint
) RETURNS ratelimits_plan LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    n CONSTANT integer := asked.shards;
    left_over CONSTANT float8 := (SELECT sum(value) FROM unnest(held) AS value) - asked.count;
    latest CONSTANT bigint := (SELECT max(ts) FROM unnest(moments) AS ts);
    share_rate CONSTANT float8 := asked.rate / n;
    slack CONSTANT float8 := CASE WHEN n > 1 THEN asked.most * 1e-12 ELSE 0 END;
    taken float8[];
BEGIN
    IF left_over >= -slack THEN  -- the fullest shards give first
        SELECT array_agg(value - LEAST(GREATEST(asked.count - before, 0), GREATEST(value, 0)) ORDER BY nth) INTO taken
        FROM (SELECT value, nth, COALESCE(sum(GREATEST(value, 0)) OVER (
                         ORDER BY value DESC, nth ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
              FROM unnest(held) WITH ORDINALITY AS shard (value, nth)) AS shards;
        RETURN (true, NULL, held, taken, moments)::ratelimits_plan;
    END IF;
    IF left_over >= COALESCE(asked.floor, '-Infinity') THEN  -- Note [Debt is level] in domain/sharded.py
        RETURN (true, ratelimits_wait(left_over / n, latest, now_ms, asked.is_window, share_rate, asked.period_ms),
                held, array_fill(left_over / n, ARRAY[n]), array_fill(latest, ARRAY[n]))::ratelimits_plan;
    END IF;
    RETURN (false, CASE WHEN n = 1
                THEN ratelimits_wait(left_over, latest, now_ms, asked.is_window, asked.rate, asked.period_ms)
                ELSE ratelimits_until(asked, held, moments, now_ms) END, held, NULL, NULL)::ratelimits_plan;
END $$;

-- The plan for what one request finds now, without a lock; a shard that has no row is full.
CREATE FUNCTION ratelimits_look(asked ratelimits_request, now_ms bigint, draw float8)
RETURNS ratelimits_plan LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    held float8[];
    moments bigint[];
BEGIN
    SELECT array_agg(COALESCE(ratelimits_value(b.value, b.ts, now_ms, asked.is_window, asked.rate / asked.shards,
                                               asked.period_ms, asked.most / asked.shards),
                              asked.most / asked.shards) ORDER BY n),
           array_agg(COALESCE(ratelimits_moment(b.ts, now_ms, asked.is_window, asked.period_ms),
                              ratelimits_first_moment(now_ms, asked.is_window, asked.period_ms, asked.start_ms, draw))
                     ORDER BY n)
    INTO held, moments
    FROM generate_series(0, asked.shards - 1) AS n
    LEFT JOIN ratelimits_bucket AS b ON b.name = asked.name AND b.key = asked.key AND b.shard = n;
    RETURN ratelimits_spread(asked, held, moments, now_ms);
END $$;

-- The same with every row locked, and made where it was missing, one after the other: whoever comes with other limits
-- in another order waits for the first row that both want, and holds none behind it.
CREATE FUNCTION ratelimits_lock(asked ratelimits_request, now_ms bigint, draw float8)
RETURNS ratelimits_plan LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    share_rate CONSTANT float8 := asked.rate / asked.shards;
    share_most CONSTANT float8 := asked.most / asked.shards;
    held float8[] := '{}';
    moments bigint[] := '{}';
    found_row record;
BEGIN
    FOR n IN 0 .. asked.shards - 1 LOOP
        LOOP
            SELECT ratelimits_value(b.value, b.ts, now_ms, asked.is_window, share_rate, asked.period_ms, share_most)
                       AS value,
                   ratelimits_moment(b.ts, now_ms, asked.is_window, asked.period_ms) AS ts
            INTO found_row FROM ratelimits_bucket AS b
            WHERE b.name = asked.name AND b.key = asked.key AND b.shard = n FOR UPDATE;
            EXIT WHEN FOUND;
            INSERT INTO ratelimits_bucket AS b
                (name, key, shard, shards, is_window, rate, period_ms, most, value, ts, used)
            VALUES (asked.name, asked.key, n, asked.shards, asked.is_window, share_rate, asked.period_ms, share_most,
                    share_most,
                    ratelimits_first_moment(now_ms, asked.is_window, asked.period_ms, asked.start_ms, draw), 0)
            ON CONFLICT DO NOTHING RETURNING b.value, b.ts INTO found_row;
            EXIT WHEN FOUND;
        END LOOP;
        held := held || found_row.value;
        moments := moments || found_row.ts;
    END LOOP;
    RETURN ratelimits_spread(asked, held, moments, now_ms);
END $$;

-- Several limits, all or none. Who is denied at the first look has locked and written nothing.
CREATE FUNCTION ratelimits_take_all(requests ratelimits_request[], now_ms bigint, draw float8)
RETURNS TABLE (nth integer, granted boolean, retry_after_ms float8, remaining float8)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    n CONSTANT integer := cardinality(requests);
    in_order CONSTANT integer[] := (
        SELECT array_agg(i ORDER BY (requests[i]).name COLLATE "C", (requests[i]).key COLLATE "C")
        FROM generate_series(1, n) AS i);
    plans ratelimits_plan[] := array_fill(NULL::ratelimits_plan, ARRAY[n]);
    asked ratelimits_request;
    plan ratelimits_plan;
    i integer;
BEGIN
    FOR i IN 1 .. n LOOP
        plans[i] := ratelimits_look(requests[i], now_ms, draw);
    END LOOP;
    IF (SELECT bool_and(p.granted) FROM unnest(plans) AS p) THEN
        FOREACH i IN ARRAY in_order LOOP
            plans[i] := ratelimits_lock(requests[i], now_ms, draw);
        END LOOP;
        IF (SELECT bool_and(p.granted) FROM unnest(plans) AS p) THEN
            FOREACH i IN ARRAY in_order LOOP
                asked := requests[i];
                plan := plans[i];
                UPDATE ratelimits_bucket AS b
                SET value = plan.left_over[b.shard + 1], ts = plan.moments[b.shard + 1],
                    used = b.used + plan.held[b.shard + 1] - plan.left_over[b.shard + 1],
                    shards = asked.shards, is_window = asked.is_window, rate = asked.rate / asked.shards,
                    period_ms = asked.period_ms, most = asked.most / asked.shards
                WHERE b.name = asked.name AND b.key = asked.key AND b.shard < asked.shards
                  AND (asked.shards = 1 OR plan.left_over[b.shard + 1] <> plan.held[b.shard + 1]);
            END LOOP;
        END IF;
    END IF;
    RETURN QUERY SELECT p.n::integer, p.ok, p.wait, (SELECT sum(v) FROM unnest(p.rest) AS v)
                 FROM unnest(plans) WITH ORDINALITY AS p (ok, wait, held, rest, moments, n) ORDER BY 1;
END $$;

-- One row: an UPDATE whose WHERE is the decision, so nobody decides on what another has changed since. Whoever is
-- denied at once has locked nothing; whoever waited for the one that took the last token keeps the row's lock to the
-- end of the transaction: PostgreSQL locks the row before it looks at it again.
-- A turn of the loop more means that somebody else got further: a row was made, or filled up, or was pruned.
CREATE FUNCTION ratelimits_take(
    asked_name text, asked_key text, asked_shard integer, n_shards integer, window_kind boolean, share_rate float8,
    period float8, share_most float8, lowest float8, first_start bigint, asked_count float8, now_ms bigint, draw float8,
    OUT granted boolean, OUT retry_after_ms float8, OUT remaining float8
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    step CONSTANT float8 := CASE WHEN window_kind THEN period ELSE 1 END;
    per CONSTANT float8 := CASE WHEN window_kind THEN 1 ELSE period END;
    bottom CONSTANT float8 := COALESCE(lowest, '-Infinity');
    moment bigint;
BEGIN
    LOOP
        UPDATE ratelimits_bucket AS b
        SET value = ratelimits_grown(b.value, b.ts, now_ms, step, share_rate, per, share_most) - asked_count,
            ts = ratelimits_moved(b.ts, now_ms, step), used = b.used + asked_count,
            shards = n_shards, is_window = window_kind, rate = share_rate, period_ms = period, most = share_most
        WHERE b.name = asked_name AND b.key = asked_key AND b.shard = asked_shard
          AND ratelimits_grown(b.value, b.ts, now_ms, step, share_rate, per, share_most) - asked_count
              >= bottom
        RETURNING b.value, b.ts INTO remaining, moment;
        granted := FOUND;
        EXIT WHEN granted;

        SELECT ratelimits_grown(b.value, b.ts, now_ms, step, share_rate, per, share_most) - asked_count,
               ratelimits_moved(b.ts, now_ms, step)
        INTO remaining, moment FROM ratelimits_bucket AS b
        WHERE b.name = asked_name AND b.key = asked_key AND b.shard = asked_shard;
        IF NOT FOUND THEN
            remaining := share_most - asked_count;
            moment := ratelimits_first_moment(now_ms, window_kind, period, first_start, draw);
            EXIT WHEN remaining < bottom;
            INSERT INTO ratelimits_bucket
                (name, key, shard, shards, is_window, rate, period_ms, most, value, ts, used)
            VALUES (asked_name, asked_key, asked_shard, n_shards, window_kind, share_rate, period, share_most,
                    remaining, moment, asked_count)
            ON CONFLICT DO NOTHING;
            granted := FOUND;
            EXIT WHEN granted;
        ELSE
            EXIT WHEN remaining < bottom;
        END IF;
    END LOOP;
    retry_after_ms := ratelimits_wait(remaining, moment, now_ms, window_kind, share_rate, period);
END $$;

-- A limit with shards: look at two of them, ask the fuller one; what that cannot grant, the whole limit is asked for.
-- The first attempt is a subtransaction. Its refusal may have left that row locked (see above), and whoever held it
-- while locking all rows from the first one on would meet others in a circle: the rollback lets go of it.
-- `remaining` is an estimate: what the shard has left, times their number.
CREATE FUNCTION ratelimits_take_sharded(
    asked ratelimits_request, now_ms bigint, draw float8, one integer, other integer,
    OUT granted boolean, OUT retry_after_ms float8, OUT remaining float8
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    share_rate CONSTANT float8 := asked.rate / asked.shards;
    share_most CONSTANT float8 := asked.most / asked.shards;
    one_holds float8;
    other_holds float8;
    first_try record;
BEGIN
    SELECT max(held) FILTER (WHERE shard = one), max(held) FILTER (WHERE shard = other) INTO one_holds, other_holds
    FROM (SELECT b.shard,
                 ratelimits_value(b.value, b.ts, now_ms, asked.is_window, share_rate, asked.period_ms, share_most) AS held
          FROM ratelimits_bucket AS b
          WHERE b.name = asked.name AND b.key = asked.key AND b.shard = ANY (ARRAY[one, other])) AS two;
    one_holds := COALESCE(one_holds, share_most);
    other_holds := COALESCE(other_holds, share_most);
    IF GREATEST(one_holds, other_holds) >= asked.count THEN
        BEGIN
            first_try := ratelimits_take(
                asked.name, asked.key, CASE WHEN other_holds > one_holds THEN other ELSE one END, asked.shards,
                asked.is_window, share_rate, asked.period_ms, share_most, 0, asked.start_ms, asked.count, now_ms, draw);
            IF first_try.granted THEN
                granted := true;
                remaining := first_try.remaining * asked.shards;
                RETURN;
            END IF;
            RAISE SQLSTATE 'JFRL1';
        EXCEPTION WHEN SQLSTATE 'JFRL1' THEN
            NULL;
        END;
    END IF;
    SELECT t.granted, t.retry_after_ms, t.remaining INTO granted, retry_after_ms, remaining
    FROM ratelimits_take_all(ARRAY[asked], now_ms, draw) AS t;
END $$;
