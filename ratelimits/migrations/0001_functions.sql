-- The algebra of ratelimits/domain, where the rows are: one call decides, one round trip, first uses and hot keys safe.
-- Equal to Python by test (docs/adr/0014). Migration 0001 runs this file; from the first release on it is never
-- changed, as the migration is: a change of a function is a file and a migration of its own.

-- Every decision rewrites its row: half of each page stays free, so that the new version finds room beside the old one
-- and no index is written. A hot key leaves a dead version per decision, so vacuum comes at 1,000 of them.
ALTER TABLE ratelimits_bucket SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02,
                                   autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);

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
    request ratelimits_request, held float8[], moments bigint[], now_ms bigint
) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    share_rate CONSTANT float8 := request.rate / request.shards;
    share_most CONSTANT float8 := request.most / request.shards;
    periods float8;
    windows float8;
    enough CONSTANT float8 := request.count - request.most * 1e-12;
BEGIN
    SELECT max((request.count - (nth - 1) * share_most - tail) / (request.shards - nth + 1) / share_rate) INTO periods
    FROM (SELECT row_number() OVER (ORDER BY value DESC, n) AS nth,
                 sum(value) OVER (ORDER BY value DESC, n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS tail
          FROM unnest(held) WITH ORDINALITY AS shard (value, n)) AS lines;
    IF NOT request.is_window THEN
        RETURN (SELECT max(ts) FROM unnest(moments) AS ts) - now_ms + periods * request.period_ms;
    END IF;
    windows := ceil(periods - 1e-9);
    RETURN (
        SELECT COALESCE(min(ts) FILTER (WHERE total >= enough), max(ts)) + windows * request.period_ms - now_ms
        FROM (SELECT ts, sum(before) OVER () + sum(LEAST(before + share_rate, share_most) - before)
                         OVER (ORDER BY ts, n ROWS UNBOUNDED PRECEDING) AS total
              FROM (SELECT ts, n, LEAST(value + share_rate * (windows - 1), share_most) AS before
                    FROM unnest(held, moments) WITH ORDINALITY AS shard (value, ts, n)) AS shards) AS edges
    );
END $$;

-- domain.evaluate: whether the shards together grant what is asked, and what is left in each.
CREATE FUNCTION ratelimits_spread(
    request ratelimits_request, held float8[], moments bigint[], now_ms bigint
) RETURNS ratelimits_plan LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    n CONSTANT integer := request.shards;
    left_over CONSTANT float8 := (SELECT sum(value) FROM unnest(held) AS value) - request.count;
    latest CONSTANT bigint := (SELECT max(ts) FROM unnest(moments) AS ts);
    share_rate CONSTANT float8 := request.rate / n;
    slack CONSTANT float8 := CASE WHEN n > 1 THEN request.most * 1e-12 ELSE 0 END;
    taken float8[];
BEGIN
    IF left_over >= -slack THEN  -- the fullest shards give first
        SELECT array_agg(value - LEAST(GREATEST(request.count - before, 0), GREATEST(value, 0)) ORDER BY nth) INTO taken
        FROM (SELECT value, nth, COALESCE(sum(GREATEST(value, 0)) OVER (
                         ORDER BY value DESC, nth ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
              FROM unnest(held) WITH ORDINALITY AS shard (value, nth)) AS shards;
        RETURN (true, NULL, held, taken, moments)::ratelimits_plan;
    END IF;
    IF left_over >= COALESCE(request.floor, '-Infinity') THEN  -- Note [Debt is level] in domain/sharded.py
        RETURN (true, ratelimits_wait(left_over / n, latest, now_ms, request.is_window, share_rate, request.period_ms),
                held, array_fill(left_over / n, ARRAY[n]), array_fill(latest, ARRAY[n]))::ratelimits_plan;
    END IF;
    RETURN (false, CASE WHEN n = 1
                THEN ratelimits_wait(left_over, latest, now_ms, request.is_window, request.rate, request.period_ms)
                ELSE ratelimits_until(request, held, moments, now_ms) END, held, NULL, NULL)::ratelimits_plan;
END $$;

-- The number of shards of a limit may change while it is used. All rows of a key say the same number (column `shards`).
-- Whoever asks with another number finds that the rows lie otherwise, and lays what all of them hold together out anew,
-- evenly, as long as nobody else looks: tokens that were taken stay taken, a debt stays a debt, and nobody is let in
-- twice. Two releases of a site that ask the same key with different numbers, for the time of a deployment, are as
-- exact; they only lay it out more often.

-- Whether the rows of this key lie in another number of shards.
CREATE FUNCTION ratelimits_lies_otherwise(request_name text, request_key text, n integer)
RETURNS boolean LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT EXISTS (SELECT FROM ratelimits_bucket AS b
                   WHERE b.name = request_name AND b.key = request_key AND b.shards <> n)
$$;

-- What the rows of this key hold together now, by the configuration of their last use: a shard without a row is full.
-- The moment is the latest of theirs: of windows with edges of their own, nothing comes in early.
CREATE FUNCTION ratelimits_together(
    request_name text, request_key text, now_ms bigint, OUT value float8, OUT ts bigint, OUT used float8
) LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT sum(ratelimits_value(b.value, b.ts, now_ms, b.is_window, b.rate, b.period_ms, b.most))
               + GREATEST(max(b.shards) - count(*), 0) * max(b.most),
           max(ratelimits_moment(b.ts, now_ms, b.is_window, b.period_ms)), sum(b.used)
    FROM ratelimits_bucket AS b WHERE b.name = request_name AND b.key = request_key
$$;

-- Lay the rows of this key out in as many shards as are asked, if they lie otherwise. The lock on the key, held to the
-- end of the transaction as those on rows are, is also taken by whoever makes a row: else a first use with one number
-- would not see a first use with another.
CREATE FUNCTION ratelimits_lay_out(request ratelimits_request, now_ms bigint) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    n CONSTANT integer := request.shards;
    whole record;
BEGIN
    PERFORM pg_advisory_xact_lock(1784635259, hashtext(request.name || chr(1) || request.key));
    IF NOT ratelimits_lies_otherwise(request.name, request.key, n) THEN
        RETURN;
    END IF;
    PERFORM FROM ratelimits_bucket AS b WHERE b.name = request.name AND b.key = request.key ORDER BY b.shard FOR UPDATE;
    whole := ratelimits_together(request.name, request.key, now_ms);
    DELETE FROM ratelimits_bucket AS b WHERE b.name = request.name AND b.key = request.key;
    INSERT INTO ratelimits_bucket (name, key, shard, shards, is_window, rate, period_ms, most, value, ts, used)
    SELECT request.name, request.key, shard, n, request.is_window, request.rate / n, request.period_ms, request.most / n,
           LEAST(whole.value, request.most) / n, whole.ts, whole.used / n
    FROM generate_series(0, n - 1) AS shard;
END $$;

-- The plan for what one request finds now, without a lock; a shard that has no row is full.
CREATE FUNCTION ratelimits_look(request ratelimits_request, now_ms bigint, draw float8)
RETURNS ratelimits_plan LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    n_shards CONSTANT integer := request.shards;
    whole record;
    held float8[];
    moments bigint[];
BEGIN
    IF ratelimits_lies_otherwise(request.name, request.key, n_shards) THEN
        whole := ratelimits_together(request.name, request.key, now_ms);
        held := array_fill(LEAST(whole.value, request.most) / n_shards, ARRAY[n_shards]);
        RETURN ratelimits_spread(request, held, array_fill(whole.ts, ARRAY[n_shards]), now_ms);
    END IF;
    SELECT array_agg(COALESCE(ratelimits_value(b.value, b.ts, now_ms, request.is_window, request.rate / request.shards,
                                               request.period_ms, request.most / request.shards),
                              request.most / request.shards) ORDER BY n),
           array_agg(COALESCE(ratelimits_moment(b.ts, now_ms, request.is_window, request.period_ms),
                              ratelimits_first_moment(now_ms, request.is_window, request.period_ms, request.start_ms, draw))
                     ORDER BY n)
    INTO held, moments
    FROM generate_series(0, n_shards - 1) AS n
    LEFT JOIN ratelimits_bucket AS b ON b.name = request.name AND b.key = request.key AND b.shard = n;
    RETURN ratelimits_spread(request, held, moments, now_ms);
END $$;

-- The loops below have an end. One more means that somebody else got further in between (a row was made, or filled
-- up, or was pruned): that is one or two, under any load. A hundred mean that what a row says and what a write of it
-- does disagree: a trigger or a rule, a damaged index. Then it is an error that grants nothing, and not a loop that
-- keeps the row locked. It names no key: that may be somebody's address.
CREATE FUNCTION ratelimits_no_decision(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the limit "%" comes to no decision after 100 attempts', name
        USING ERRCODE = 'internal_error',
              DETAIL = 'What its row says and what a write of the row does disagree.',
              HINT = 'Look for triggers and rules on ratelimits_bucket, and run REINDEX TABLE ratelimits_bucket.';
END $$;

-- The same with every row locked, and made where it was missing, one after the other: whoever comes with other limits
-- in another order waits for the first row that both want, and holds none behind it. The lock on the key comes before
-- those on rows, so that nobody waits for it who holds a row that its holder wants.
CREATE FUNCTION ratelimits_lock(request ratelimits_request, now_ms bigint, draw float8)
RETURNS ratelimits_plan LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    share_rate CONSTANT float8 := request.rate / request.shards;
    share_most CONSTANT float8 := request.most / request.shards;
    held float8[] := '{}';
    moments bigint[] := '{}';
    found_row record;
BEGIN
    IF request.shards <> (SELECT count(*) FILTER (WHERE b.shards = request.shards) FROM ratelimits_bucket AS b
                        WHERE b.name = request.name AND b.key = request.key) THEN
        PERFORM ratelimits_lay_out(request, now_ms);
    END IF;
    FOR n IN 0 .. request.shards - 1 LOOP
        FOR attempt IN 1 .. 101 LOOP
            IF attempt > 100 THEN
                PERFORM ratelimits_no_decision(request.name);
            END IF;
            SELECT ratelimits_value(b.value, b.ts, now_ms, request.is_window, share_rate, request.period_ms, share_most)
                       AS value,
                   ratelimits_moment(b.ts, now_ms, request.is_window, request.period_ms) AS ts
            INTO found_row FROM ratelimits_bucket AS b
            WHERE b.name = request.name AND b.key = request.key AND b.shard = n AND b.shards = request.shards FOR UPDATE;
            EXIT WHEN FOUND;
            PERFORM ratelimits_lay_out(request, now_ms);
            INSERT INTO ratelimits_bucket AS b
                (name, key, shard, shards, is_window, rate, period_ms, most, value, ts, used)
            VALUES (request.name, request.key, n, request.shards, request.is_window, share_rate, request.period_ms, share_most,
                    share_most,
                    ratelimits_first_moment(now_ms, request.is_window, request.period_ms, request.start_ms, draw), 0)
            ON CONFLICT DO NOTHING RETURNING b.value, b.ts INTO found_row;
            EXIT WHEN FOUND;
        END LOOP;
        held := held || found_row.value;
        moments := moments || found_row.ts;
    END LOOP;
    RETURN ratelimits_spread(request, held, moments, now_ms);
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
    request ratelimits_request;
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
                request := requests[i];
                plan := plans[i];
                UPDATE ratelimits_bucket AS b
                SET value = plan.left_over[b.shard + 1], ts = plan.moments[b.shard + 1],
                    used = b.used + plan.held[b.shard + 1] - plan.left_over[b.shard + 1],
                    shards = request.shards, is_window = request.is_window, rate = request.rate / request.shards,
                    period_ms = request.period_ms, most = request.most / request.shards
                WHERE b.name = request.name AND b.key = request.key AND b.shard < request.shards
                  AND (request.shards = 1 OR plan.left_over[b.shard + 1] <> plan.held[b.shard + 1]
                       OR plan.left_over[b.shard + 1] < 0);  -- in debt all shards have one moment
            END LOOP;
        END IF;
    END IF;
    RETURN QUERY SELECT p.n::integer, p.ok, p.wait, (SELECT sum(v) FROM unnest(p.rest) AS v)
                 FROM unnest(plans) WITH ORDINALITY AS p (ok, wait, held, rest, moments, n) ORDER BY 1;
END $$;

-- One row: an UPDATE whose WHERE is the decision, so nobody decides on what another has changed since. Whoever is
-- denied at once has locked nothing; whoever waited for the one that took the last token keeps the row's lock to the
-- end of the transaction: PostgreSQL locks the row before it looks at it again.
-- Of a key that lies in another number of shards a whole limit is asked as one of several; a shard refuses, and whoever
-- request it asks the whole.
CREATE FUNCTION ratelimits_take(
    request_name text, request_key text, request_shard integer, n_shards integer, window_kind boolean, share_rate float8,
    period float8, share_most float8, lowest float8, first_start bigint, request_count float8, now_ms bigint, draw float8,
    OUT granted boolean, OUT retry_after_ms float8, OUT remaining float8
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    step CONSTANT float8 := CASE WHEN window_kind THEN period ELSE 1 END;
    per CONSTANT float8 := CASE WHEN window_kind THEN 1 ELSE period END;
    bottom CONSTANT float8 := COALESCE(lowest, '-Infinity');
    request ratelimits_request;
    moment bigint;
BEGIN
    FOR attempt IN 1 .. 101 LOOP
        IF attempt > 100 THEN
            PERFORM ratelimits_no_decision(request_name);
        END IF;
        UPDATE ratelimits_bucket AS b
        SET value = ratelimits_grown(b.value, b.ts, now_ms, step, share_rate, per, share_most) - request_count,
            ts = ratelimits_moved(b.ts, now_ms, step), used = b.used + request_count,
            is_window = window_kind, rate = share_rate, period_ms = period, most = share_most
        WHERE b.name = request_name AND b.key = request_key AND b.shard = request_shard AND b.shards = n_shards
          AND ratelimits_grown(b.value, b.ts, now_ms, step, share_rate, per, share_most) - request_count
              >= bottom
        RETURNING b.value, b.ts INTO remaining, moment;
        granted := FOUND;
        EXIT WHEN granted;

        SELECT ratelimits_grown(b.value, b.ts, now_ms, step, share_rate, per, share_most) - request_count,
               ratelimits_moved(b.ts, now_ms, step)
        INTO remaining, moment FROM ratelimits_bucket AS b
        WHERE b.name = request_name AND b.key = request_key AND b.shard = request_shard AND b.shards = n_shards;
        IF FOUND THEN
            EXIT WHEN remaining < bottom;
            CONTINUE;
        END IF;
        request := (request_name, request_key, window_kind, share_rate * n_shards, period, share_most * n_shards, lowest,
                  first_start, n_shards, request_count)::ratelimits_request;
        IF ratelimits_lies_otherwise(request_name, request_key, n_shards) THEN
            IF n_shards = 1 THEN
                SELECT t.granted, t.retry_after_ms, t.remaining INTO granted, retry_after_ms, remaining
                FROM ratelimits_take_all(ARRAY[request], now_ms, draw) AS t;
            END IF;
            RETURN;
        END IF;
        remaining := share_most - request_count;
        moment := ratelimits_first_moment(now_ms, window_kind, period, first_start, draw);
        EXIT WHEN remaining < bottom;
        PERFORM ratelimits_lay_out(request, now_ms);
        INSERT INTO ratelimits_bucket (name, key, shard, shards, is_window, rate, period_ms, most, value, ts, used)
        VALUES (request_name, request_key, request_shard, n_shards, window_kind, share_rate, period, share_most, remaining,
                moment, request_count)
        ON CONFLICT DO NOTHING;
        granted := FOUND;
        EXIT WHEN granted;
    END LOOP;
    retry_after_ms := ratelimits_wait(remaining, moment, now_ms, window_kind, share_rate, period);
END $$;

-- A limit with shards goes around rows that others have locked.
-- Of two shards (drawn, unless tests name them) the fuller one gives, of those that have a row, hold enough, and are
-- not held by anybody at this moment. (With 16 shards and four who take, a first choice without that met a locked row each
-- fifth time, and waited for a commit.) If there is none, the fuller one is waited for, or made if it has no row: then
-- it is full. What that cannot grant, the whole limit is asked for.
-- Each attempt is a subtransaction. Its failure may have left a row locked that had enough until somebody took it, and
-- whoever held that while waiting for others would meet them in a circle: the rollback lets go of it.
-- `remaining` is an estimate: what the shard has left, times their number.
CREATE FUNCTION ratelimits_take_sharded(
    request_name text, request_key text, config ratelimits_config, request_count float8, now_ms bigint,
    one integer DEFAULT NULL, other integer DEFAULT NULL, draw float8 DEFAULT random(),
    OUT granted boolean, OUT retry_after_ms float8, OUT remaining float8
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    n CONSTANT integer := config.shards;
    share_rate CONSTANT float8 := config.rate / n;
    share_most CONSTANT float8 := config.most / n;
    step CONSTANT float8 := CASE WHEN config.is_window THEN config.period_ms ELSE 1 END;
    per CONSTANT float8 := CASE WHEN config.is_window THEN 1 ELSE config.period_ms END;
    one_holds float8;
    other_holds float8;
    request ratelimits_request;
    waited_for record;
BEGIN
    one := COALESCE(one, floor(random() * n));
    other := COALESCE(other, (one + 1 + floor(random() * (n - 1))::integer) % n);
    BEGIN
        UPDATE ratelimits_bucket AS b
        SET value = ratelimits_grown(b.value, b.ts, now_ms, step, share_rate, per, share_most) - request_count,
            ts = ratelimits_moved(b.ts, now_ms, step), used = b.used + request_count,
            is_window = config.is_window, rate = share_rate, period_ms = config.period_ms, most = share_most
        WHERE b.name = request_name AND b.key = request_key AND b.shards = n AND b.shard = (
            SELECT f.shard FROM ratelimits_bucket AS f
            WHERE f.name = request_name AND f.key = request_key AND f.shard IN (one, other) AND f.shards = n
              AND ratelimits_grown(f.value, f.ts, now_ms, step, share_rate, per, share_most) >= request_count
            ORDER BY ratelimits_grown(f.value, f.ts, now_ms, step, share_rate, per, share_most) DESC, f.shard = other
            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
        RETURNING b.value * n INTO remaining;
        granted := FOUND;
        IF granted THEN
            RETURN;
        END IF;
        RAISE SQLSTATE 'JFRL1';
    EXCEPTION WHEN SQLSTATE 'JFRL1' THEN
        NULL;
    END;

    SELECT max(held) FILTER (WHERE shard = one), max(held) FILTER (WHERE shard = other) INTO one_holds, other_holds
    FROM (SELECT b.shard, ratelimits_grown(b.value, b.ts, now_ms, step, share_rate, per, share_most) AS held
          FROM ratelimits_bucket AS b
          WHERE b.name = request_name AND b.key = request_key AND b.shard IN (one, other)
            AND b.shards = n) AS two;
    one_holds := COALESCE(one_holds, share_most);
    other_holds := COALESCE(other_holds, share_most);
    IF GREATEST(one_holds, other_holds) >= request_count THEN
        BEGIN
            waited_for := ratelimits_take(
                request_name, request_key, CASE WHEN other_holds > one_holds THEN other ELSE one END, n, config.is_window,
                share_rate, config.period_ms, share_most, 0, config.start_ms, request_count, now_ms, draw);
            IF waited_for.granted THEN
                granted := true;
                remaining := waited_for.remaining * n;
                RETURN;
            END IF;
            RAISE SQLSTATE 'JFRL1';
        EXCEPTION WHEN SQLSTATE 'JFRL1' THEN
            NULL;
        END;
    END IF;
    request := (request_name, request_key, config.is_window, config.rate, config.period_ms, config.most, config.floor,
              config.start_ms, n, request_count)::ratelimits_request;
    SELECT t.granted, t.retry_after_ms, t.remaining INTO granted, retry_after_ms, remaining
    FROM ratelimits_take_all(ARRAY[request], now_ms, draw) AS t;
END $$;

-- Give tokens back, each shard its part, never above what it can hold; a shard that has no row is full already.
-- Rows are locked in order of shard, as everywhere. The join gives the locked row's own last version to the SET.
CREATE FUNCTION ratelimits_give_back(request ratelimits_request, now_ms bigint) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    share_rate CONSTANT float8 := request.rate / request.shards;
    share_most CONSTANT float8 := request.most / request.shards;
    part CONSTANT float8 := request.count / request.shards;
    changed integer;
BEGIN
    IF ratelimits_lies_otherwise(request.name, request.key, request.shards) THEN
        PERFORM ratelimits_lay_out(request, now_ms);
    END IF;
    WITH locked AS MATERIALIZED (
        SELECT b.id FROM ratelimits_bucket AS b
        WHERE b.name = request.name AND b.key = request.key AND b.shards = request.shards ORDER BY b.shard FOR UPDATE
    )
    UPDATE ratelimits_bucket AS b
    SET value = LEAST(share_most, part + ratelimits_value(
            b.value, b.ts, now_ms, request.is_window, share_rate, request.period_ms, share_most)),
        ts = ratelimits_moment(b.ts, now_ms, request.is_window, request.period_ms),
        used = GREATEST(b.used - part, 0), is_window = request.is_window, rate = share_rate,
        period_ms = request.period_ms, most = share_most
    FROM locked WHERE b.id = locked.id;
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END $$;

-- Reverse
DROP FUNCTION ratelimits_give_back(ratelimits_request, bigint);
DROP FUNCTION ratelimits_take_sharded(text, text, ratelimits_config, float8, bigint, integer, integer, float8);
DROP FUNCTION ratelimits_take(text, text, integer, integer, boolean, float8, float8, float8, float8, bigint, float8,
                              bigint, float8);
DROP FUNCTION ratelimits_take_all(ratelimits_request[], bigint, float8);
DROP FUNCTION ratelimits_lock(ratelimits_request, bigint, float8);
DROP FUNCTION ratelimits_no_decision(text);
DROP FUNCTION ratelimits_look(ratelimits_request, bigint, float8);
DROP FUNCTION ratelimits_lay_out(ratelimits_request, bigint);
DROP FUNCTION ratelimits_together(text, text, bigint);
DROP FUNCTION ratelimits_lies_otherwise(text, text, integer);
DROP FUNCTION ratelimits_spread(ratelimits_request, float8[], bigint[], bigint);
DROP FUNCTION ratelimits_until(ratelimits_request, float8[], bigint[], bigint);
DROP FUNCTION ratelimits_wait(float8, bigint, bigint, boolean, float8, float8);
DROP FUNCTION ratelimits_first_moment(bigint, boolean, float8, bigint, float8);
DROP FUNCTION ratelimits_moment(bigint, bigint, boolean, float8);
DROP FUNCTION ratelimits_value(float8, bigint, bigint, boolean, float8, float8, float8);
DROP FUNCTION ratelimits_moved(bigint, bigint, float8);
DROP FUNCTION ratelimits_grown(float8, bigint, bigint, float8, float8, float8, float8);
DROP TYPE ratelimits_plan;
DROP TYPE ratelimits_request;
DROP TYPE ratelimits_config;
