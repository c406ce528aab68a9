-- Several limits that lie in one row each are decided as one limit is, by an UPDATE each whose WHERE is the decision: to look
-- at each, lock it and then write it cost more than the submit that asked. Migration 0003 runs this file.

-- All or none, with all rows locked before one is written: shards, first uses, and whatever else the quick way leaves.
ALTER FUNCTION ratelimits_take_all(ratelimits_request[], bigint, float8) RENAME TO ratelimits_lock_and_take_all;

-- Several limits, all or none. The quick way is for requests that come in the order in which rows are locked. Who is denied at
-- the first look has locked and written nothing: the first UPDATE locks no row that it does not grant, and those after it are
-- looked at before. What changes in between undoes the subtransaction, so that nothing stays locked either.
CREATE FUNCTION ratelimits_take_all(requests ratelimits_request[], now_ms bigint, draw float8)
RETURNS TABLE (nth integer, granted boolean, retry_after_ms float8, remaining float8)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    request ratelimits_request;
    before ratelimits_request;
    waits float8[] := '{}';
    left_over float8[] := '{}';
BEGIN
    FOREACH request IN ARRAY requests LOOP
        granted := request.shards = 1;
        IF granted AND before.name IS NOT NULL THEN
            granted := (request.name COLLATE "C", request.key COLLATE "C") > (before.name, before.key) AND EXISTS (
                SELECT FROM ratelimits_bucket AS b
                WHERE b.name = request.name AND b.key = request.key AND b.shard = 0 AND b.shards = 1
                  AND ratelimits_value(b.value, b.ts, now_ms, request.is_window, request.rate, request.period_ms,
                                       request.most) - request.count >= COALESCE(request.floor, '-Infinity'));
        END IF;
        EXIT WHEN NOT granted;
        before := request;
    END LOOP;
    IF granted THEN
        BEGIN
            FOREACH request IN ARRAY requests LOOP
                UPDATE ratelimits_bucket AS b
                SET value = ratelimits_value(b.value, b.ts, now_ms, request.is_window, request.rate, request.period_ms,
                                             request.most) - request.count,
                    ts = ratelimits_moment(b.ts, now_ms, request.is_window, request.period_ms),
                    used = b.used + request.count, is_window = request.is_window, rate = request.rate,
                    period_ms = request.period_ms, most = request.most
                WHERE b.name = request.name AND b.key = request.key AND b.shard = 0 AND b.shards = 1
                  AND ratelimits_value(b.value, b.ts, now_ms, request.is_window, request.rate, request.period_ms,
                                       request.most) - request.count >= COALESCE(request.floor, '-Infinity')
                RETURNING b.value, ratelimits_wait(b.value, b.ts, now_ms, request.is_window, request.rate, request.period_ms)
                INTO remaining, retry_after_ms;
                IF NOT FOUND THEN
                    RAISE SQLSTATE 'JFRL1';
                END IF;
                left_over := left_over || remaining;
                waits := waits || retry_after_ms;
            END LOOP;
            FOR i IN 1 .. cardinality(requests) LOOP
                nth := i;
                remaining := left_over[i];
                retry_after_ms := waits[i];
                RETURN NEXT;
            END LOOP;
            RETURN;
        EXCEPTION WHEN SQLSTATE 'JFRL1' THEN
            NULL;
        END;
    END IF;
    RETURN QUERY SELECT * FROM ratelimits_lock_and_take_all(requests, now_ms, draw);
END $$;

-- Reverse
DROP FUNCTION ratelimits_take_all(ratelimits_request[], bigint, float8);
ALTER FUNCTION ratelimits_lock_and_take_all(ratelimits_request[], bigint, float8) RENAME TO ratelimits_take_all;
