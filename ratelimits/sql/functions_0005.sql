-- The number of shards of a limit may change while it is used. Migration 0005 runs this file; a change goes into a new
-- file and a new migration.
-- All rows of a key say the same number of shards (column `shards`). Whoever asks with another number finds that the
-- rows lie otherwise, and lays what all of them hold together out anew, evenly, as long as nobody else looks: tokens
-- that were taken stay taken, a debt stays a debt, and nobody is let in twice. Two releases of a site that ask the same
-- key with different numbers, for the time of a deployment, are as exact; they only lay it out more often.

-- Whether the rows of this key lie in another number of shards.
CREATE FUNCTION ratelimits_lies_otherwise(asked_name text, asked_key text, n integer)
RETURNS boolean LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT EXISTS (SELECT FROM ratelimits_bucket AS b
                   WHERE b.name = asked_name AND b.key = asked_key AND b.shards <> n)
$$;

-- What the rows of this key hold together now, by the configuration of their last use: a shard without a row is full.
-- The moment is the latest of theirs: of windows with edges of their own, nothing comes in early.
CREATE FUNCTION ratelimits_together(
    asked_name text, asked_key text, now_ms bigint, OUT value float8, OUT ts bigint, OUT used float8
) LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT sum(ratelimits_value(b.value, b.ts, now_ms, b.is_window, b.rate, b.period_ms, b.most))
               + GREATEST(max(b.shards) - count(*), 0) * max(b.most),
           max(ratelimits_moment(b.ts, now_ms, b.is_window, b.period_ms)), sum(b.used)
    FROM ratelimits_bucket AS b WHERE b.name = asked_name AND b.key = asked_key
$$;

-- Lay the rows of this key out in as many shards as are asked, if they lie otherwise. The lock on the key, held to the
-- end of the transaction as those on rows are, is also taken by whoever makes a row: else a first use with one number
-- would not see a first use with another.
CREATE FUNCTION ratelimits_lay_out(asked ratelimits_request, now_ms bigint) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    n CONSTANT integer := asked.shards;
    whole record;
BEGIN
    PERFORM pg_advisory_xact_lock(1784635252, hashtext(asked.name || chr(1) || asked.key));
    IF NOT ratelimits_lies_otherwise(asked.name, asked.key, n) THEN
        RETURN;
    END IF;
    PERFORM FROM ratelimits_bucket AS b WHERE b.name = asked.name AND b.key = asked.key ORDER BY b.shard FOR UPDATE;
    whole := ratelimits_together(asked.name, asked.key, now_ms);
    DELETE FROM ratelimits_bucket AS b WHERE b.name = asked.name AND b.key = asked.key;
    INSERT INTO ratelimits_bucket (name, key, shard, shards, is_window, rate, period_ms, most, value, ts, used)
    SELECT asked.name, asked.key, shard, n, asked.is_window, asked.rate / n, asked.period_ms, asked.most / n,
           LEAST(whole.value, asked.most) / n, whole.ts, whole.used / n
    FROM generate_series(0, n - 1) AS shard;
END $$;

-- The plan for what one request finds now, without a lock; a shard that has no row is full.
CREATE OR REPLACE FUNCTION ratelimits_look(asked ratelimits_request, now_ms bigint, draw float8)
RETURNS ratelimits_plan LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    n_shards CONSTANT integer := asked.shards;
    whole record;
    held float8[];
    moments bigint[];
BEGIN
    IF ratelimits_lies_otherwise(asked.name, asked.key, n_shards) THEN
        whole := ratelimits_together(asked.name, asked.key, now_ms);
        held := array_fill(LEAST(whole.value, asked.most) / n_shards, ARRAY[n_shards]);
        RETURN ratelimits_spread(asked, held, array_fill(whole.ts, ARRAY[n_shards]), now_ms);
    END IF;
    SELECT array_agg(COALESCE(ratelimits_value(b.value, b.ts, now_ms, asked.is_window, asked.rate / asked.shards,
                                               asked.period_ms, asked.most / asked.shards),
                              asked.most / asked.shards) ORDER BY n),
           array_agg(COALESCE(ratelimits_moment(b.ts, now_ms, asked.is_window, asked.period_ms),
                              ratelimits_first_moment(now_ms, asked.is_window, asked.period_ms, asked.start_ms, draw))
                     ORDER BY n)
    INTO held, moments
    FROM generate_series(0, n_shards - 1) AS n
    LEFT JOIN ratelimits_bucket AS b ON b.name = asked.name AND b.key = asked.key AND b.shard = n;
    RETURN ratelimits_spread(asked, held, moments, now_ms);
END $$;

-- Every row of a request, locked, and made where it was missing, one after the other. The lock on the key comes before
-- those on rows, so that nobody waits for it who holds a row that its holder wants.
CREATE OR REPLACE FUNCTION ratelimits_lock(asked ratelimits_request, now_ms bigint, draw float8)
RETURNS ratelimits_plan LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    share_rate CONSTANT float8 := asked.rate / asked.shards;
    share_most CONSTANT float8 := asked.most / asked.shards;
    held float8[] := '{}';
    moments bigint[] := '{}';
    found_row record;
BEGIN
    IF asked.shards <> (SELECT count(*) FILTER (WHERE b.shards = asked.shards) FROM ratelimits_bucket AS b
                        WHERE b.name = asked.name AND b.key = asked.key) THEN
        PERFORM ratelimits_lay_out(asked, now_ms);
    END IF;
    FOR n IN 0 .. asked.shards - 1 LOOP
        FOR turn IN 1 .. 101 LOOP
            IF turn > 100 THEN
                PERFORM ratelimits_no_decision(asked.name);
            END IF;
            SELECT ratelimits_value(b.value, b.ts, now_ms, asked.is_window, share_rate, asked.period_ms, share_most)
                       AS value,
                   ratelimits_moment(b.ts, now_ms, asked.is_window, asked.period_ms) AS ts
            INTO found_row FROM ratelimits_bucket AS b
            WHERE b.name = asked.name AND b.key = asked.key AND b.shard = n AND b.shards = asked.shards FOR UPDATE;
            EXIT WHEN FOUND;
            PERFORM ratelimits_lay_out(asked, now_ms);
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

-- One row: an UPDATE whose WHERE is the decision. Of a key that lies in another number of shards a whole limit is asked
-- as one of several; a shard refuses, and whoever asked it asks the whole.
CREATE OR REPLACE FUNCTION ratelimits_take(
    asked_name text, asked_key text, asked_shard integer, n_shards integer, window_kind boolean, share_rate float8,
    period float8, share_most float8, lowest float8, first_start bigint, asked_count float8, now_ms bigint, draw float8,
    OUT granted boolean, OUT retry_after_ms float8, OUT remaining float8
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    step CONSTANT float8 := CASE WHEN window_kind THEN period ELSE 1 END;
    per CONSTANT float8 := CASE WHEN window_kind THEN 1 ELSE period END;
    bottom CONSTANT float8 := COALESCE(lowest, '-Infinity');
    asked ratelimits_request;
    moment bigint;
BEGIN
    FOR turn IN 1 .. 101 LOOP
        IF turn > 100 THEN
            PERFORM ratelimits_no_decision(asked_name);
        END IF;
        UPDATE ratelimits_bucket AS b
        SET value = ratelimits_grown(b.value, b.ts, now_ms, step, share_rate, per, share_most) - asked_count,
            ts = ratelimits_moved(b.ts, now_ms, step), used = b.used + asked_count,
            is_window = window_kind, rate = share_rate, period_ms = period, most = share_most
        WHERE b.name = asked_name AND b.key = asked_key AND b.shard = asked_shard AND b.shards = n_shards
          AND ratelimits_grown(b.value, b.ts, now_ms, step, share_rate, per, share_most) - asked_count
              >= bottom
        RETURNING b.value, b.ts INTO remaining, moment;
        granted := FOUND;
        EXIT WHEN granted;

        SELECT ratelimits_grown(b.value, b.ts, now_ms, step, share_rate, per, share_most) - asked_count,
               ratelimits_moved(b.ts, now_ms, step)
        INTO remaining, moment FROM ratelimits_bucket AS b
        WHERE b.name = asked_name AND b.key = asked_key AND b.shard = asked_shard AND b.shards = n_shards;
        IF FOUND THEN
            EXIT WHEN remaining < bottom;
            CONTINUE;
        END IF;
        asked := (asked_name, asked_key, window_kind, share_rate * n_shards, period, share_most * n_shards, lowest,
                  first_start, n_shards, asked_count)::ratelimits_request;
        IF ratelimits_lies_otherwise(asked_name, asked_key, n_shards) THEN
            IF n_shards = 1 THEN
                SELECT t.granted, t.retry_after_ms, t.remaining INTO granted, retry_after_ms, remaining
                FROM ratelimits_take_all(ARRAY[asked], now_ms, draw) AS t;
            END IF;
            RETURN;
        END IF;
        remaining := share_most - asked_count;
        moment := ratelimits_first_moment(now_ms, window_kind, period, first_start, draw);
        EXIT WHEN remaining < bottom;
        PERFORM ratelimits_lay_out(asked, now_ms);
        INSERT INTO ratelimits_bucket (name, key, shard, shards, is_window, rate, period_ms, most, value, ts, used)
        VALUES (asked_name, asked_key, asked_shard, n_shards, window_kind, share_rate, period, share_most, remaining,
                moment, asked_count)
        ON CONFLICT DO NOTHING;
        granted := FOUND;
        EXIT WHEN granted;
    END LOOP;
    retry_after_ms := ratelimits_wait(remaining, moment, now_ms, window_kind, share_rate, period);
END $$;

-- Give tokens back, each shard its part, never above what it can hold; a shard that has no row is full already.
-- Rows are locked in order of shard, as everywhere. The join gives the locked row's own last version to the SET.
CREATE FUNCTION ratelimits_give_back(asked ratelimits_request, now_ms bigint) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    share_rate CONSTANT float8 := asked.rate / asked.shards;
    share_most CONSTANT float8 := asked.most / asked.shards;
    part CONSTANT float8 := asked.count / asked.shards;
    changed integer;
BEGIN
    IF ratelimits_lies_otherwise(asked.name, asked.key, asked.shards) THEN
        PERFORM ratelimits_lay_out(asked, now_ms);
    END IF;
    WITH locked AS MATERIALIZED (
        SELECT b.id FROM ratelimits_bucket AS b
        WHERE b.name = asked.name AND b.key = asked.key AND b.shards = asked.shards ORDER BY b.shard FOR UPDATE
    )
    UPDATE ratelimits_bucket AS b
    SET value = LEAST(share_most, part + ratelimits_value(
            b.value, b.ts, now_ms, asked.is_window, share_rate, asked.period_ms, share_most)),
        ts = ratelimits_moment(b.ts, now_ms, asked.is_window, asked.period_ms),
        used = GREATEST(b.used - part, 0), is_window = asked.is_window, rate = share_rate,
        period_ms = asked.period_ms, most = share_most
    FROM locked WHERE b.id = locked.id;
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END $$;

-- A limit with shards, as in functions_0003.sql, by rows that lie in as many as are asked.
CREATE OR REPLACE FUNCTION ratelimits_take_sharded(
    asked_name text, asked_key text, config ratelimits_config, asked_count float8, now_ms bigint,
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
    asked ratelimits_request;
    waited_for record;
BEGIN
    one := COALESCE(one, floor(random() * n));
    other := COALESCE(other, (one + 1 + floor(random() * (n - 1))::integer) % n);
    BEGIN
        UPDATE ratelimits_bucket AS b
        SET value = ratelimits_grown(b.value, b.ts, now_ms, step, share_rate, per, share_most) - asked_count,
            ts = ratelimits_moved(b.ts, now_ms, step), used = b.used + asked_count,
            is_window = config.is_window, rate = share_rate, period_ms = config.period_ms, most = share_most
        WHERE b.name = asked_name AND b.key = asked_key AND b.shards = n AND b.shard = (
            SELECT f.shard FROM ratelimits_bucket AS f
            WHERE f.name = asked_name AND f.key = asked_key AND f.shard IN (one, other) AND f.shards = n
              AND ratelimits_grown(f.value, f.ts, now_ms, step, share_rate, per, share_most) >= asked_count
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
          WHERE b.name = asked_name AND b.key = asked_key AND b.shard IN (one, other)
            AND b.shards = n) AS two;
    one_holds := COALESCE(one_holds, share_most);
    other_holds := COALESCE(other_holds, share_most);
    IF GREATEST(one_holds, other_holds) >= asked_count THEN
        BEGIN
            waited_for := ratelimits_take(
                asked_name, asked_key, CASE WHEN other_holds > one_holds THEN other ELSE one END, n, config.is_window,
                share_rate, config.period_ms, share_most, 0, config.start_ms, asked_count, now_ms, draw);
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
    asked := (asked_name, asked_key, config.is_window, config.rate, config.period_ms, config.most, config.floor,
              config.start_ms, n, asked_count)::ratelimits_request;
    SELECT t.granted, t.retry_after_ms, t.remaining INTO granted, retry_after_ms, remaining
    FROM ratelimits_take_all(ARRAY[asked], now_ms, draw) AS t;
END $$;

-- Rows that earlier versions left of another number of shards: those last used say how it is.
DELETE FROM ratelimits_bucket AS b
USING (SELECT DISTINCT ON (name, key) name, key, shards FROM ratelimits_bucket ORDER BY name, key, ts DESC, shard) AS last
WHERE b.name = last.name AND b.key = last.key AND (b.shards <> last.shards OR b.shard >= b.shards);
