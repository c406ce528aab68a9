-- Shares of a fair queue (docs/adr/0121), and of how many jobs of one concurrency key so many run at a time (0122).
-- Migration 0008 runs this file.

-- Whose share of a queue a job takes: 0 where the queue is not shared out; the group, or the concurrency key; or below zero
-- the owner (-1: nobody).
CREATE FUNCTION jobs_share(fair text, owner integer, grp integer, key integer) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN fair = 'off' THEN 0 WHEN fair = 'group' AND grp > 0 THEN grp WHEN fair = 'key' AND key > 0 THEN key
                ELSE -1 - coalesce(owner, 0) END
$$;

-- How many more jobs with this key may run (null: any number), as it is known now.
CREATE FUNCTION jobs_key_left(key integer) RETURNS bigint LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    RETURN (SELECT CASE WHEN one.paused_at IS NOT NULL THEN 0 WHEN one.bound IS NOT NULL THEN greatest(one.bound - (
                       SELECT count(*) FROM jobs_live AS live WHERE live.key_id = key AND live.lease_secret IS NOT NULL), 0) END
            FROM jobs_concurrencykey AS one WHERE one.id = key);
END $$;

-- The same for who takes them, who is alone with the key until their transaction ends if there is room: counted after the
-- lock, so what the one before them committed is seen. It waits for nobody: while another one takes of the key there is none,
-- and that one wakes those who looked in vain. A transaction with one snapshot cannot see it, and is given none.
CREATE FUNCTION jobs_key_room(key integer) RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    room bigint := jobs_key_left(key);
BEGIN
    IF room IS NULL OR room = 0 THEN
        RETURN room;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' OR NOT pg_try_advisory_xact_lock(1784635255, key) THEN
        RETURN 0;
    END IF;
    RETURN jobs_key_left(key);
END $$;

-- What a share has been served when something of it begins to wait: what it was, but no less than who of those that wait is
-- served next, or where nobody waits than who was served the most: who was away has no claim on the time of the others.
CREATE FUNCTION jobs_served_of(of_queue text, part integer) RETURNS float8 LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    RETURN greatest(0, (SELECT one.seconds FROM jobs_served AS one WHERE one.queue = of_queue AND one.share = part), coalesce(
        (SELECT mark.served FROM jobs_mark AS mark WHERE mark.queue = of_queue AND mark.share <> 0
         ORDER BY mark.priority DESC, mark.served LIMIT 1),
        (SELECT max(one.seconds) FROM jobs_served AS one WHERE one.queue = of_queue AND one.share <> 0)));
END $$;

CREATE OR REPLACE FUNCTION jobs_wake(lane integer, due timestamptz) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1784635252, lane % 256);
    IF current_setting('transaction_isolation') = 'read committed'
       AND EXISTS (SELECT FROM jobs_mark AS mark WHERE mark.lane_id = lane AND mark.at <= due) THEN
        RETURN true;
    END IF;
    INSERT INTO jobs_mark (
        lane_id, at, queue, priority, owner_id, group_id, requirement_id, required_id, avoid, key_id, share, served)
    SELECT one.id, due, one.queue, one.priority, one.owner_id, one.group_id, one.requirement_id, one.required_id, one.avoid,
           one.key_id, one.share, CASE WHEN one.share = 0 THEN 0 ELSE jobs_served_of(one.queue, one.share) END
    FROM jobs_lane AS one WHERE one.id = lane;
    RETURN FOUND;
END $$;

CREATE FUNCTION jobs_enter(
    of_queue text, level smallint, owner integer, grp integer, requirement integer, avoided bigint[], due timestamptz,
    key integer)
RETURNS integer LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    apart boolean := false;
    mode text := 'off';
    whose integer;
    theirs integer;
    part integer;
    found_id integer;
BEGIN
    SELECT queue.by_owner, queue.fair INTO apart, mode FROM jobs_queue AS queue WHERE queue.name = of_queue;
    apart := coalesce(apart, false);
    mode := coalesce(mode, 'off');
    whose := CASE WHEN apart THEN coalesce(owner, 0) ELSE 0 END;
    theirs := CASE WHEN apart THEN coalesce(grp, 0) ELSE 0 END;
    part := jobs_share(mode, owner, grp, key);
    LOOP
        SELECT lane.id INTO found_id FROM jobs_lane AS lane
        WHERE lane.queue = of_queue AND lane.priority = level AND lane.is_apart = apart AND lane.owner_id = whose
          AND lane.group_id = theirs AND lane.requirement_id = coalesce(requirement, 0) AND lane.share = part
          AND lane.key_id = coalesce(key, 0)
          AND hash_array(lane.avoid) = hash_array(avoided) AND lane.avoid = avoided AND lane.fair = mode
        ORDER BY lane.id + 0 LIMIT 1;
        IF NOT FOUND THEN
            INSERT INTO jobs_lane (
                queue, priority, is_apart, owner_id, group_id, requirement_id, required_id, avoid, fair, share, key_id)
            SELECT of_queue, level, apart, whose, theirs, coalesce(requirement, 0), coalesce((
                       SELECT CASE WHEN one.prefers = '{}' THEN one.id ELSE one.base_id END
                       FROM jobs_requirement AS one WHERE one.id = requirement), 0), avoided, mode, part, coalesce(key, 0)
            RETURNING id INTO found_id;
        END IF;
        IF jobs_wake(found_id, due) THEN
            RETURN found_id;
        END IF;
    END LOOP;
END $$;

-- For submits of the version before, until they are restarted.
CREATE OR REPLACE FUNCTION jobs_enter(
    of_queue text, level smallint, owner integer, grp integer, requirement integer, avoided bigint[], due timestamptz)
RETURNS integer LANGUAGE sql AS $$
    SELECT jobs_enter(of_queue, level, owner, grp, requirement, avoided, due, NULL)
$$;

-- How many more jobs of a queue may run (null: any number), and how it is shared out. Who takes from a queue with a ceiling,
-- or a fair one, is alone with it until their transaction ends, and sees what the one before them committed. `waits` false:
-- 0 rather than wait for them, as after three quarters of a second in any case: who holds a claim's transaction open keeps
-- nobody from other queues. A transaction with one snapshot cannot see that, and is given none; where neither was in its
-- snapshot it fails with 40001 if one was set since. Some hundred locks, for a worker may steal from thousands of queues,
-- and the server's table of locks is everybody's.
-- Whoever sets one of them waits for the claims of the queue that are under way (queries.keys.set_bounds).
-- It takes the place of jobs_room, which claims of the version before ask until they are restarted.
CREATE FUNCTION jobs_open(of_queue text, waits boolean, OUT room bigint, OUT fair text)
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '750ms' AS $$
DECLARE
    lock_of CONSTANT integer := hashtext(of_queue) % 64;
    is_one_snapshot CONSTANT boolean := current_setting('transaction_isolation') <> 'read committed';
    most bigint;
BEGIN
    room := 0;
    fair := 'off';
    IF NOT waits AND NOT pg_try_advisory_xact_lock_shared(1784635253, lock_of) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(1784635253, lock_of);
    IF is_one_snapshot THEN
        PERFORM FROM jobs_queue AS queue WHERE queue.name = of_queue FOR SHARE;
    END IF;
    SELECT queue.ceiling, queue.fair INTO most, fair FROM jobs_queue AS queue WHERE queue.name = of_queue;
    IF most IS NULL AND fair = 'off' THEN
        room := NULL;
        RETURN;
    END IF;
    IF is_one_snapshot OR NOT waits AND NOT pg_try_advisory_xact_lock(1784635254, lock_of) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(1784635254, lock_of);
    room := CASE WHEN most IS NOT NULL THEN
        greatest(most - (SELECT count(*) FROM jobs_live AS live WHERE live.counted_in = of_queue), 0) END;
EXCEPTION WHEN lock_not_available THEN
    room := 0;
END $$;

-- Until which due time a worker takes jobs of a lane like this; before everything where it takes none.
CREATE FUNCTION jobs_takes_lane(requirement integer, required integer, avoided bigint[], worker bigint, satisfies integer[],
                                head_start_s float8, alive_s float8, grace_s float8)
RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN required <> 0 AND NOT required = ANY (satisfies) THEN '-infinity'
                WHEN requirement = required THEN statement_timestamp()
                ELSE least(statement_timestamp(), coalesce(
                         jobs_takes_until(requirement, satisfies, head_start_s, alive_s), '-infinity')) END
           - CASE WHEN worker = ANY (avoided) THEN make_interval(secs => grace_s) ELSE interval '0' END
$$;

-- How much of a queue somebody's share is, beside one of 1.
CREATE FUNCTION jobs_weight_of(fair text, share integer) RETURNS integer LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((SELECT weight.weight FROM jobs_weight AS weight WHERE weight.owner_id = -1 - share),
                    (SELECT weight.weight FROM jobs_weight AS weight WHERE fair = 'group' AND weight.group_id = share), 1);
END $$;

-- Lock the first job of a lane that a worker might begin, due until `until`, behind that of this time and id. Its plans are
-- made as its caller says: a setting of its own would be a tenth of a pick.
CREATE FUNCTION jobs_lock_first(lane integer, behind timestamptz, behind_id bigint, until timestamptz,
                                OUT id bigint, OUT run_at timestamptz, OUT tid tid)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT live.job_id, live.run_at, live.ctid INTO id, run_at, tid FROM jobs_live AS live
    WHERE live.lease_secret IS NULL AND live.lane_id = lane
      AND (live.run_at, live.job_id) > (behind, behind_id) AND live.run_at <= until
      AND (live.expires_at IS NULL OR live.expires_at > statement_timestamp() OR live.confirmed_fence > 0)
    ORDER BY live.run_at, live.job_id LIMIT 1 FOR UPDATE SKIP LOCKED;
END $$;

-- What runs of a fair queue takes its time of its share, by weight, once it ends: noted by whoever ends it, who waits for
-- nobody, and added up by the next claim (jobs_pick_fairly), which is alone with the queue.
CREATE FUNCTION jobs_charge_share() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_charge (queue, share, seconds)
    SELECT queue.name, jobs_share(queue.fair, OLD.owner_id, OLD.group_id, OLD.key_id),
           greatest(extract(epoch FROM clock_timestamp() - OLD.claimed_at), 0)
    FROM jobs_queue AS queue WHERE queue.name = OLD.counted_in AND queue.fair <> 'off';
    RETURN NULL;
END $$;
CREATE TRIGGER a_run_that_ended_is_charged AFTER DELETE ON jobs_live FOR EACH ROW
WHEN (OLD.counted_in IS NOT NULL) EXECUTE FUNCTION jobs_charge_share();
CREATE TRIGGER a_run_that_failed_is_charged AFTER UPDATE OF counted_in ON jobs_live FOR EACH ROW
WHEN (OLD.counted_in IS NOT NULL AND NEW.counted_in IS NULL) EXECUTE FUNCTION jobs_charge_share();

-- How long a run of this fair queue takes, about: one that has just begun counts for so much. Kept as the share 0.
CREATE FUNCTION jobs_usual_run(of_queue text) RETURNS float8 LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN greatest(coalesce(
        (SELECT one.seconds FROM jobs_served AS one WHERE one.queue = of_queue AND one.share = 0), 1), 1e-3);
END $$;

-- Add up what was noted of a fair queue; who calls is alone with it.
CREATE FUNCTION jobs_fold_charges(of_queue text, mode text) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- The first jobs of a fair queue, locked, for a worker that serves everybody; who calls is alone with the queue (jobs_open).
-- Of each priority the next is of the share that was served the least: the seconds that its jobs have run, with those that run
-- now, each for as long as a run takes at least, divided by its weight; of those alike the one whose job waits for longest.
-- What runs is read from its own rows, so it is right whoever ended it, and how.
CREATE FUNCTION jobs_pick_fairly(of_queue text, mode text, most bigint, me bigint, mine integer[],
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
                  AND head.at <= statement_timestamp()
                ORDER BY head.share, head.priority, head.at LIMIT 1) AS due
        LOOP
            spare := spare || nth;
            served[nth] := waits;
        END LOOP;
        OPEN idle FOR
            SELECT * FROM jobs_mark AS one
            WHERE one.queue = of_queue AND one.share <> 0 AND one.priority = level AND one.at <= statement_timestamp()
            ORDER BY one.priority DESC, one.served, one.at, one.id;
        FETCH idle INTO next_idle;
        WHILE amount < most LOOP
            WHILE next_idle.share = ANY (shares) LOOP
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
                  AND one.at <= statement_timestamp()
                ORDER BY one.share, one.priority, one.at
            LOOP
                key_no := array_position(keys, mark.key_id);
                IF key_no IS NULL AND mark.key_id <> 0 THEN
                    keys := keys || mark.key_id;
                    key_rooms := key_rooms || jobs_key_room(mark.key_id);
                    key_no := cardinality(keys);
                END IF;
                CONTINUE WHEN key_rooms[key_no] = 0;
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

CREATE OR REPLACE FUNCTION jobs_keep_lane() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    level smallint;
    avoided bigint[];
BEGIN
    SELECT job.priority, coalesce((SELECT lane.avoid FROM jobs_lane AS lane WHERE lane.id = NEW.lane_id), '{}')
    INTO level, avoided FROM jobs_job AS job WHERE job.id = NEW.job_id;
    NEW.lane_id := jobs_enter(NEW.queue, coalesce(level, 0::smallint), NEW.owner_id, NEW.group_id, NEW.requirement_id,
                              coalesce(avoided, '{}'), NEW.run_at, NEW.key_id);
    RETURN NEW;
END $$;

-- A job that moves to another queue has its key there, if that is a queue's.
CREATE FUNCTION jobs_key_in(key integer, of_queue text) RETURNS integer LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moved integer := key;
    known jobs_concurrencykey;
BEGIN
    SELECT * INTO known FROM jobs_concurrencykey AS one WHERE one.id = key;
    IF known.queue <> '' AND known.queue <> of_queue THEN
        INSERT INTO jobs_concurrencykey (kind, queue, name, bound)
        SELECT '', of_queue, known.name, (SELECT queue.of_key FROM jobs_queue AS queue WHERE queue.name = of_queue)
        ON CONFLICT (kind, queue, name) DO UPDATE SET used_at = statement_timestamp() RETURNING id INTO moved;
    END IF;
    RETURN moved;
END $$;

CREATE OR REPLACE FUNCTION jobs_follow_record() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE jobs_live AS live
    SET queue = NEW.queue, owner_id = NEW.owner_id, group_id = NEW.group_id, requirement_id = NEW.requirement_id,
        expires_at = NEW.expires_at, timeout_s = NEW.timeout_s, is_metered = NEW.is_metered,
        lane_id = CASE WHEN live.lease_secret IS NOT NULL THEN live.lane_id ELSE jobs_enter(
            NEW.queue, NEW.priority, NEW.owner_id, NEW.group_id, NEW.requirement_id, coalesce(
                (SELECT lane.avoid FROM jobs_lane AS lane WHERE lane.id = live.lane_id), '{}'), live.run_at,
            jobs_key_in(live.key_id, NEW.queue)) END,
        key_id = jobs_key_in(live.key_id, NEW.queue)
    WHERE live.job_id = NEW.id;
    RETURN NULL;
END $$;

-- Reverse
DROP TRIGGER a_run_that_failed_is_charged ON jobs_live;
DROP TRIGGER a_run_that_ended_is_charged ON jobs_live;
DROP FUNCTION jobs_charge_share();
DROP FUNCTION jobs_key_in(integer, text);
DROP FUNCTION jobs_pick_fairly(text, text, bigint, bigint, integer[], float8, float8, float8);
DROP FUNCTION jobs_fold_charges(text, text);
DROP FUNCTION jobs_usual_run(text);
DROP FUNCTION jobs_served_of(text, integer);
DROP FUNCTION jobs_lock_first(integer, timestamptz, bigint, timestamptz);
DROP FUNCTION jobs_weight_of(text, integer);
DROP FUNCTION jobs_takes_lane(integer, integer, bigint[], bigint, integer[], float8, float8, float8);
DROP FUNCTION jobs_open(text, boolean);
DROP FUNCTION jobs_enter(text, smallint, integer, integer, integer, bigint[], timestamptz, integer);
DROP FUNCTION jobs_key_room(integer);
DROP FUNCTION jobs_key_left(integer);
DROP FUNCTION jobs_share(text, integer, integer, integer);
