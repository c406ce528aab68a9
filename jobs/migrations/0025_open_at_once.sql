-- A claim opens a queue whose lock is free, as it nearly always is, without a savepoint and a time-out: 1.3 % of a claim of one
-- job. Whoever waits, waits as before. Migration 0025 runs this file.

-- Take this advisory lock within three quarters of a second, for whose transaction is open nobody knows; whether it was taken.
CREATE FUNCTION jobs_lock_within(of_kind integer, lock_of integer, is_shared boolean) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '750ms' AS $$
BEGIN
    IF is_shared THEN
        PERFORM pg_advisory_xact_lock_shared(of_kind, lock_of);
    ELSE
        PERFORM pg_advisory_xact_lock(of_kind, lock_of);
    END IF;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- As 0008_shares_and_keys.sql says. A lock that somebody waits for alone is not free: who sets a bound is not passed over.
CREATE OR REPLACE FUNCTION jobs_open(of_queue text, waits boolean, OUT room bigint, OUT fair text)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    lock_of CONSTANT integer := hashtext(of_queue) % 64;
    is_one_snapshot CONSTANT boolean := current_setting('transaction_isolation') <> 'read committed';
    most bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(1784635253, lock_of)
       AND NOT (waits AND jobs_lock_within(1784635253, lock_of, true)) THEN
        room := 0;
        fair := 'off';
        RETURN;
    END IF;
    IF is_one_snapshot THEN
        PERFORM FROM jobs_queue AS queue WHERE queue.name = of_queue FOR SHARE;
    END IF;
    SELECT queue.ceiling, queue.fair INTO most, fair FROM jobs_queue AS queue WHERE queue.name = of_queue;
    IF most IS NULL AND fair = 'off' THEN
        RETURN;
    END IF;
    IF is_one_snapshot OR NOT pg_try_advisory_xact_lock(1784635254, lock_of)
       AND NOT (waits AND jobs_lock_within(1784635254, lock_of, false)) THEN
        room := 0;
        RETURN;
    END IF;
    room := CASE WHEN most IS NOT NULL THEN
        greatest(most - (SELECT count(*) FROM jobs_live AS live WHERE live.counted_in = of_queue), 0) END;
END $$;

-- Reverse
DROP FUNCTION jobs_lock_within(integer, integer, boolean);
