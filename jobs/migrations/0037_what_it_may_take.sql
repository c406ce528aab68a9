-- A claim of a fair queue passes over what its worker may not take, for want of a label or of room for a key, as it reads: it
-- looked for a job of each such share, alone with the queue meanwhile. Migration 0037 runs this file.

CREATE OR REPLACE FUNCTION jobs_pick_fairly(of_queue text, mode text, most bigint, me bigint, mine integer[],
                                 head_start_s float8, alive_s float8, grace_s float8)
RETURNS TABLE (job_id bigint, tid tid) LANGUAGE plpgsql SET enable_seqscan = off SET enable_sort = off AS $$
DECLARE
    shares integer[];  -- that run something: whose, by how much more than `served` they count now, and their weight
    runs float8[];
    weights integer[];
    served float8[] := '{}';  -- of those of them that wait at this level
    lanes integer[] := '{}';  -- of those that something was picked from: which, and the time and id of the last of it
    times timestamptz[] := '{}';
    ids bigint[] := '{}';
    keys integer[] := '{}';  -- concurrency keys, and how many more of each may run (null: any number)
    key_rooms bigint[] := '{}';
    key_no integer;
    full_keys integer[] := '{}';  -- of which no more may run: their lanes are passed over
    usual CONSTANT float8 := jobs_usual_run(of_queue);
    spare integer[];  -- places in `shares` of those with something due
    waits float8;
    level smallint;
    idle refcursor;
    next_idle jobs_mark;  -- the first lane of a share that runs nothing
    mark jobs_mark;
    pick_id bigint;  -- what was picked last
    pick_at timestamptz;
    pick_tid tid;
    nth integer;
    lane_no integer;
    amount bigint := 0;
BEGIN
    PERFORM jobs_fold_charges(of_queue, mode);
    SELECT coalesce(array_agg(one.share), '{}'), coalesce(array_agg(one.seconds), '{}'),
           coalesce(array_agg(jobs_weight_of(mode, one.share)), '{}')
    INTO shares, runs, weights
    FROM (SELECT jobs_share(mode, live.owner_id, live.group_id, live.key_id) AS share,
                 sum(greatest(extract(epoch FROM clock_timestamp() - live.claimed_at)::float8, usual)) AS seconds
          FROM jobs_live AS live WHERE live.counted_in = of_queue GROUP BY 1) AS one;
    LOOP
        SELECT due.priority INTO level FROM jobs_mark AS due
        WHERE due.queue = of_queue AND due.share <> 0 AND due.at <= statement_timestamp()
          AND due.priority < coalesce(level, 32767)
        ORDER BY due.priority DESC LIMIT 1;
        EXIT WHEN NOT FOUND;
        spare := '{}';
        FOR nth, waits IN
            SELECT one.place, due.served FROM unnest(shares) WITH ORDINALITY AS one (share, place) CROSS JOIN LATERAL (
                SELECT head.served FROM jobs_mark AS head
                WHERE head.queue = of_queue AND head.share <> 0 AND head.share = one.share AND head.priority = level
                  AND head.at <= statement_timestamp() AND (head.required_id = 0 OR head.required_id = ANY (mine))
                ORDER BY head.share, head.priority, head.at LIMIT 1) AS due
        LOOP
            spare := spare || nth;
            served[nth] := waits;
        END LOOP;
        OPEN idle FOR
            SELECT * FROM jobs_mark AS one
            WHERE one.queue = of_queue AND one.share <> 0 AND one.priority = level AND one.at <= statement_timestamp()
              AND (one.required_id = 0 OR one.required_id = ANY (mine))
            ORDER BY one.priority DESC, one.served, one.at, one.id;
        FETCH idle INTO next_idle;
        WHILE amount < most LOOP
            WHILE next_idle.key_id = ANY (full_keys) OR next_idle.share = ANY (shares) LOOP
                FETCH idle INTO next_idle;
            END LOOP;
            SELECT one.place INTO nth FROM unnest(spare) AS one (place)
            ORDER BY served[one.place] + runs[one.place] / weights[one.place], one.place LIMIT 1;
            EXIT WHEN nth IS NULL AND next_idle.share IS NULL;
            IF nth IS NULL OR next_idle.served <= served[nth] + runs[nth] / weights[nth] THEN
                shares := shares || next_idle.share;
                runs := runs || 0::float8;
                weights := weights || jobs_weight_of(mode, next_idle.share);
                nth := cardinality(shares);
                served[nth] := next_idle.served;
                spare := spare || nth;
            END IF;
            pick_id := NULL;
            FOR mark IN
                SELECT * FROM jobs_mark AS one
                WHERE one.queue = of_queue AND one.share <> 0 AND one.share = shares[nth] AND one.priority = level
                  AND one.at <= statement_timestamp() AND (one.required_id = 0 OR one.required_id = ANY (mine))
                ORDER BY one.share, one.priority, one.at
            LOOP
                CONTINUE WHEN mark.key_id = ANY (full_keys);
                key_no := array_position(keys, mark.key_id);
                IF key_no IS NULL AND mark.key_id <> 0 THEN
                    keys := keys || mark.key_id;
                    key_rooms := key_rooms || jobs_key_room(mark.key_id);
                    key_no := cardinality(keys);
                END IF;
                IF key_rooms[key_no] = 0 THEN
                    full_keys := full_keys || mark.key_id;
                    CONTINUE;
                END IF;
                lane_no := array_position(lanes, mark.lane_id);
                SELECT one.id, one.run_at, one.tid INTO pick_id, pick_at, pick_tid FROM jobs_lock_first(
                    mark.lane_id, coalesce(times[lane_no], mark.at), coalesce(ids[lane_no], 0), jobs_takes_lane(
                        mark.requirement_id, mark.required_id, mark.avoid, me, mine, head_start_s, alive_s, grace_s)) AS one;
                EXIT WHEN pick_id IS NOT NULL;
            END LOOP;
            IF pick_id IS NULL THEN
                spare := array_remove(spare, nth);
                CONTINUE;
            END IF;
            IF lane_no IS NULL THEN
                lanes := lanes || mark.lane_id;
                lane_no := cardinality(lanes);
            END IF;
            times[lane_no] := pick_at;
            ids[lane_no] := pick_id;
            IF key_no IS NOT NULL THEN
                key_rooms[key_no] := key_rooms[key_no] - 1;
            END IF;
            runs[nth] := runs[nth] + usual;
            amount := amount + 1;
            job_id := pick_id;
            tid := pick_tid;
            RETURN NEXT;
        END LOOP;
        CLOSE idle;
        EXIT WHEN amount = most;
    END LOOP;
END $$;

-- Reverse
