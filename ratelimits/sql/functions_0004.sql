-- The two loops of functions_0001.sql with an end. Migration 0004 runs this file; a change goes into a new file and a
-- new migration.
-- A turn more means that somebody else got further in between: that is one or two, under any load. A hundred mean that
-- what a row says and what a write of it does disagree: a trigger or a rule, a damaged index. Before, that went on for
-- ever, with the row locked; now it is an error that grants nothing. It names no key: that may be somebody's address.
CREATE FUNCTION ratelimits_no_decision(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the limit "%" comes to no decision after 100 turns', name
        USING ERRCODE = 'internal_error',
              DETAIL = 'What its row says and what a write of the row does disagree.',
              HINT = 'Look for triggers and rules on ratelimits_bucket, and run REINDEX TABLE ratelimits_bucket.';
END $$;

-- Every row of a request, locked, and made where it was missing, one after the other.
CREATE OR REPLACE FUNCTION ratelimits_lock(asked ratelimits_request, now_ms bigint, draw float8)
RETURNS ratelimits_plan LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    share_rate CONSTANT float8 := asked.rate / asked.shards;
    share_most CONSTANT float8 := asked.most / asked.shards;
    held float8[] := '{}';
    moments bigint[] := '{}';
    found_row record;
BEGIN
    FOR n IN 0 .. asked.shards - 1 LOOP
        FOR turn IN 1 .. 101 LOOP
            IF turn > 100 THEN
                PERFORM ratelimits_no_decision(asked.name);
            END IF;
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

-- One row: an UPDATE whose WHERE is the decision.
CREATE OR REPLACE FUNCTION ratelimits_take(
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
    FOR turn IN 1 .. 101 LOOP
        IF turn > 100 THEN
            PERFORM ratelimits_no_decision(asked_name);
        END IF;
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
