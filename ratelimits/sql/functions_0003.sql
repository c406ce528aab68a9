-- A limit with shards, anew: it goes around rows that others have locked. Migration 0003 runs this file; a change goes
-- into a new file and a new migration.
-- Of two shards (drawn, unless tests name them) the fuller one gives, of those that have a row, hold enough, and are not held by anybody
-- at this moment. (With 16 shards and four who take, a first choice without that met a locked row each fifth time, and
-- waited for a commit.) If there is none, the fuller one is waited for, or made if it has no row: then it is full. What
-- that cannot grant, the whole limit is asked for.
-- Each attempt is a subtransaction. Its failure may have left a row locked that had enough until somebody took it, and
-- whoever held that while waiting for others would meet them in a circle: the rollback lets go of it.
-- `remaining` is an estimate: what the shard has left, times their number.
CREATE FUNCTION ratelimits_take_sharded(
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
            shards = n, is_window = config.is_window, rate = share_rate, period_ms = config.period_ms, most = share_most
        WHERE b.name = asked_name AND b.key = asked_key AND b.shard = (
            SELECT f.shard FROM ratelimits_bucket AS f
            WHERE f.name = asked_name AND f.key = asked_key AND f.shard IN (one, other)
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
          WHERE b.name = asked_name AND b.key = asked_key AND b.shard IN (one, other)) AS two;
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

DROP FUNCTION ratelimits_take_sharded(ratelimits_request, bigint, float8, integer, integer);
