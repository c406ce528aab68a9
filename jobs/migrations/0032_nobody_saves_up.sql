-- Who was away from a fair queue saves nothing up (docs/adr/0121), however it came back. Migration 0032 runs this file.

-- What a share has been served when something of it begins to wait: what it was, but no less than who of those that wait is
-- served next, or where nobody waits than who was served the most. What waits for a later moment is not among them.
CREATE OR REPLACE FUNCTION jobs_served_of(of_queue text, part integer) RETURNS float8 LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    RETURN greatest(0, (SELECT one.seconds FROM jobs_served AS one WHERE one.queue = of_queue AND one.share = part), coalesce(
        (SELECT mark.served FROM jobs_mark AS mark
         WHERE mark.queue = of_queue AND mark.share <> 0 AND mark.at <= statement_timestamp()
         ORDER BY mark.priority DESC, mark.served LIMIT 1),
        (SELECT max(one.seconds) FROM jobs_served AS one WHERE one.queue = of_queue AND one.share <> 0)));
END $$;

-- Add up what was noted of a fair queue; who calls is alone with it. A share that waits has been served what its marks say:
-- what it had run before it was away is less.
CREATE OR REPLACE FUNCTION jobs_fold_charges(of_queue text, mode text) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    charged record;
    before float8;
    total float8;
BEGIN
    FOR charged IN
        WITH gone AS (DELETE FROM jobs_charge AS one WHERE one.queue = of_queue RETURNING one.share, one.seconds)
        SELECT gone.share, sum(gone.seconds) / jobs_weight_of(mode, gone.share) AS seconds, avg(gone.seconds) AS each
        FROM gone GROUP BY gone.share
    LOOP
        INSERT INTO jobs_served AS one (queue, share, seconds, at)
        SELECT of_queue, 0, charged.each, statement_timestamp()
        ON CONFLICT (queue, share) DO UPDATE
        SET seconds = 0.9 * one.seconds + 0.1 * charged.each, at = statement_timestamp();
        SELECT min(mark.served) INTO before FROM jobs_mark AS mark
        WHERE mark.queue = of_queue AND mark.share <> 0 AND mark.share = charged.share AND mark.at <= statement_timestamp();
        INSERT INTO jobs_served AS one (queue, share, seconds, at)
        SELECT of_queue, charged.share, coalesce(before, jobs_served_of(of_queue, charged.share)) + charged.seconds,
               statement_timestamp()
        ON CONFLICT (queue, share) DO UPDATE
        SET seconds = greatest(one.seconds, before) + charged.seconds, at = statement_timestamp()
        RETURNING one.seconds INTO total;
        UPDATE jobs_mark AS mark SET served = total
        WHERE mark.id = ANY (ARRAY(
            SELECT one.id FROM jobs_mark AS one
            WHERE one.queue = of_queue AND one.share <> 0 AND one.share = charged.share FOR UPDATE SKIP LOCKED));
    END LOOP;
END $$;

-- Reverse
CREATE OR REPLACE FUNCTION jobs_served_of(of_queue text, part integer) RETURNS float8 LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    RETURN greatest(0, (SELECT one.seconds FROM jobs_served AS one WHERE one.queue = of_queue AND one.share = part), coalesce(
        (SELECT mark.served FROM jobs_mark AS mark WHERE mark.queue = of_queue AND mark.share <> 0
         ORDER BY mark.priority DESC, mark.served LIMIT 1),
        (SELECT max(one.seconds) FROM jobs_served AS one WHERE one.queue = of_queue AND one.share <> 0)));
END $$;
CREATE OR REPLACE FUNCTION jobs_fold_charges(of_queue text, mode text) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    charged record;
    total float8;
BEGIN
    FOR charged IN
        WITH gone AS (DELETE FROM jobs_charge AS one WHERE one.queue = of_queue RETURNING one.share, one.seconds)
        SELECT gone.share, sum(gone.seconds) / jobs_weight_of(mode, gone.share) AS seconds, avg(gone.seconds) AS each
        FROM gone GROUP BY gone.share
    LOOP
        INSERT INTO jobs_served AS one (queue, share, seconds, at)
        SELECT of_queue, 0, charged.each, statement_timestamp()
        ON CONFLICT (queue, share) DO UPDATE
        SET seconds = 0.9 * one.seconds + 0.1 * charged.each, at = statement_timestamp();
        INSERT INTO jobs_served AS one (queue, share, seconds, at)
        SELECT of_queue, charged.share, jobs_served_of(of_queue, charged.share) + charged.seconds, statement_timestamp()
        ON CONFLICT (queue, share) DO UPDATE SET seconds = one.seconds + charged.seconds, at = statement_timestamp()
        RETURNING one.seconds INTO total;
        UPDATE jobs_mark AS mark SET served = total
        WHERE mark.id = ANY (ARRAY(
            SELECT one.id FROM jobs_mark AS one
            WHERE one.queue = of_queue AND one.share <> 0 AND one.share = charged.share FOR UPDATE SKIP LOCKED));
    END LOOP;
END $$;
