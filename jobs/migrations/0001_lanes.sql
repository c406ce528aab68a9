-- Lanes (docs/adr/0112): how a job gets into one, and who keeps the marks of those in which something waits. Migration
-- 0001 runs this file.
ALTER TABLE jobs_mark SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The caller's transaction has put a job into this lane that is due at `due`, or will. False: there is no such lane.
-- Whoever puts something in shares the lane's lock until they commit, and jobs_tidy has it alone. The functions are
-- volatile: each statement in them sees what was committed before it began, so after the lock. A serializable
-- transaction sees no more than at its beginning, and leaves a mark in any case.
-- A mark is inserted, never moved from here: a transaction that stays open keeps nobody waiting. 256 locks, for a bulk
-- may meet thousands of lanes, and the server's table of locks is everybody's.
-- enable_seqscan: each session keeps its plans, and those that were made of empty tables would read whole ones later.
CREATE FUNCTION jobs_wake(lane integer, due timestamptz) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1784635252, lane % 256);
    IF current_setting('transaction_isolation') = 'read committed'
       AND EXISTS (SELECT FROM jobs_mark AS mark WHERE mark.lane_id = lane AND mark.at <= due) THEN
        RETURN true;
    END IF;
    INSERT INTO jobs_mark (lane_id, at, queue, priority, owner_id, group_id, requirement_id, required_id, avoid)
    SELECT one.id, due, one.queue, one.priority, one.owner_id, one.group_id, one.requirement_id, one.required_id, one.avoid
    FROM jobs_lane AS one WHERE one.id = lane;
    RETURN FOUND;
END $$;

-- The lane of jobs like this, which is awake from `due` on; it is made if it is not there. Nobody waits for a lane that
-- another transaction is making: they make one more, and the first of them gets what comes.
-- `+ 0`: a plan of few lanes would else look through all of them in order of id, in a session that keeps it.
CREATE FUNCTION jobs_enter(of_queue text, level smallint, owner integer, grp integer, requirement integer, avoided bigint[],
                           due timestamptz)
RETURNS integer LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    apart CONSTANT boolean := coalesce((SELECT queue.by_owner FROM jobs_queue AS queue WHERE queue.name = of_queue), false);
    whose CONSTANT integer := CASE WHEN apart THEN coalesce(owner, 0) ELSE 0 END;
    theirs CONSTANT integer := CASE WHEN apart THEN coalesce(grp, 0) ELSE 0 END;
    found_id integer;
BEGIN
    LOOP
        SELECT lane.id INTO found_id FROM jobs_lane AS lane
        WHERE lane.queue = of_queue AND lane.priority = level AND lane.is_apart = apart AND lane.owner_id = whose
          AND lane.group_id = theirs AND lane.requirement_id = coalesce(requirement, 0)
          AND hash_array(lane.avoid) = hash_array(avoided) AND lane.avoid = avoided
        ORDER BY lane.id + 0 LIMIT 1;
        IF NOT FOUND THEN
            INSERT INTO jobs_lane (queue, priority, is_apart, owner_id, group_id, requirement_id, required_id, avoid)
            SELECT of_queue, level, apart, whose, theirs, coalesce(requirement, 0), coalesce((
                       SELECT CASE WHEN one.prefers = '{}' THEN one.id ELSE one.base_id END
                       FROM jobs_requirement AS one WHERE one.id = requirement), 0), avoided
            RETURNING id INTO found_id;
        END IF;
        IF jobs_wake(found_id, due) THEN
            RETURN found_id;
        END IF;
    END LOOP;
END $$;

-- Move the mark of a lane to the first job that waits in it, or take it away if none does. It waits for nobody: while
-- somebody puts jobs into the lane it does nothing (null). Otherwise whether the lane sleeps now. A transaction with one
-- snapshot does not see what came in before it got the lock: it does nothing either.
CREATE FUNCTION jobs_tidy(lane integer) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    first_mark jobs_mark;
    head timestamptz;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed'
       OR NOT pg_try_advisory_xact_lock(1784635252, lane % 256) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO first_mark FROM jobs_mark AS mark WHERE mark.lane_id = lane ORDER BY mark.at, mark.id LIMIT 1;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    SELECT live.run_at INTO head FROM jobs_live AS live
    WHERE live.lease_secret IS NULL AND live.lane_id = lane AND live.run_at >= first_mark.at
    ORDER BY live.run_at, live.job_id LIMIT 1;
    IF NOT FOUND THEN
        DELETE FROM jobs_mark AS mark WHERE mark.lane_id = lane;
        RETURN true;
    END IF;
    DELETE FROM jobs_mark AS mark WHERE mark.lane_id = lane AND mark.id <> first_mark.id;
    IF head > first_mark.at THEN
        UPDATE jobs_mark AS mark SET at = head WHERE mark.id = first_mark.id;
    END IF;
    RETURN false;
END $$;

-- Delete a lane in which nothing waits; whether it is gone. What runs may still name it: who puts such a job back finds or
-- makes its lane by what the job's own rows say.
CREATE FUNCTION jobs_delete_lane(lane integer) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed'
       OR NOT pg_try_advisory_xact_lock(1784635252, lane % 256)
       OR EXISTS (SELECT FROM jobs_live AS live WHERE live.lease_secret IS NULL AND live.lane_id = lane) THEN
        RETURN false;
    END IF;
    DELETE FROM jobs_mark AS mark WHERE mark.lane_id = lane;
    DELETE FROM jobs_lane AS one WHERE one.id = lane;
    RETURN FOUND;
END $$;

-- How many more jobs of a queue may run; null: any number. Who takes from a queue with a ceiling is alone with it until
-- their transaction ends, and sees what the one before them committed. `waits` false: 0 rather than wait for them, as after
-- three quarters of a second in any case: who holds a claim's transaction open keeps nobody from other queues.
-- A transaction with one snapshot cannot see that, and is given none; where no ceiling was in its snapshot it fails with 40001
-- if one was set since. Some hundred locks, for a worker may steal from
-- thousands of queues, and the server's table of locks is everybody's.
-- Whoever moves a ceiling waits for the claims of the queue that are under way (queries.keys.set_ceiling).
CREATE FUNCTION jobs_room(of_queue text, waits boolean) RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '750ms' AS $$
DECLARE
    lock_of CONSTANT integer := hashtext(of_queue) % 64;
    most bigint;
BEGIN
    IF NOT waits AND NOT pg_try_advisory_xact_lock_shared(1784635253, lock_of) THEN
        RETURN 0;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(1784635253, lock_of);
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM FROM jobs_queue AS queue WHERE queue.name = of_queue FOR SHARE;
    END IF;
    SELECT queue.ceiling INTO most FROM jobs_queue AS queue WHERE queue.name = of_queue;
    IF most IS NULL THEN
        RETURN NULL;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
       OR NOT waits AND NOT pg_try_advisory_xact_lock(1784635254, lock_of) THEN
        RETURN 0;
    END IF;
    PERFORM pg_advisory_xact_lock(1784635254, lock_of);
    RETURN greatest(most - (SELECT count(*) FROM jobs_live AS live WHERE live.counted_in = of_queue), 0);
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END $$;

-- Until which due time a worker that satisfies these requirements takes jobs that have this one: all (infinity), or none
-- (null). Where it lacks what is preferred alone, and a live worker has that, it takes what has been due for a head start.
CREATE FUNCTION jobs_takes_until(requirement integer, satisfies integer[], head_start_s float8, alive_s float8)
RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted jobs_requirement;
BEGIN
    IF requirement = 0 OR requirement = ANY (satisfies) THEN
        RETURN 'infinity';
    END IF;
    SELECT * INTO wanted FROM jobs_requirement WHERE id = requirement;
    IF wanted.id IS NULL OR wanted.prefers = '{}' OR NOT (wanted.base_id IS NULL OR wanted.base_id = ANY (satisfies)) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (
        SELECT FROM jobs_worker
        WHERE wanted.id = ANY (jobs_worker.satisfies) AND revoked_at IS NULL AND drained_at IS NULL
          AND last_seen_at > statement_timestamp() - make_interval(secs => alive_s)) THEN
        RETURN statement_timestamp() - make_interval(secs => head_start_s);
    END IF;
    RETURN 'infinity';
END $$;

-- Whoever inserts live rows by themselves, or edits a job that waits, need not know of lanes. The farm's own statements bring
-- the lane for new jobs, and for those whose attempt ended (settle.sql): these conditions are all that they cost. Who puts a
-- running job back by hand, or copies a row with its lane, is found by `doctor --jobs`.
CREATE FUNCTION jobs_keep_lane() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    level smallint;
    avoided bigint[];
BEGIN
    SELECT job.priority, coalesce((SELECT lane.avoid FROM jobs_lane AS lane WHERE lane.id = NEW.lane_id), '{}')
    INTO level, avoided FROM jobs_job AS job WHERE job.id = NEW.job_id;
    NEW.lane_id := jobs_enter(NEW.queue, coalesce(level, 0::smallint), NEW.owner_id, NEW.group_id, NEW.requirement_id,
                              coalesce(avoided, '{}'), NEW.run_at);
    RETURN NEW;
END $$;
CREATE TRIGGER a_new_job_waits_in_its_lane BEFORE INSERT ON jobs_live FOR EACH ROW
WHEN (NEW.lane_id IS NULL) EXECUTE FUNCTION jobs_keep_lane();
CREATE TRIGGER a_waiting_job_is_in_its_lane BEFORE UPDATE OF queue, owner_id, group_id, requirement_id, run_at ON jobs_live
FOR EACH ROW
WHEN (OLD.lease_secret IS NULL AND NEW.lease_secret IS NULL AND OLD.lane_id = NEW.lane_id
      AND (OLD.queue, OLD.owner_id, OLD.group_id, OLD.requirement_id, OLD.run_at)
          IS DISTINCT FROM (NEW.queue, NEW.owner_id, NEW.group_id, NEW.requirement_id, NEW.run_at))
EXECUTE FUNCTION jobs_keep_lane();

-- What people change of a record stands on its live row too.
CREATE FUNCTION jobs_follow_record() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE jobs_live AS live
    SET queue = NEW.queue, owner_id = NEW.owner_id, group_id = NEW.group_id, requirement_id = NEW.requirement_id,
        expires_at = NEW.expires_at, timeout_s = NEW.timeout_s, is_metered = NEW.is_metered,
        lane_id = CASE WHEN live.lease_secret IS NOT NULL THEN live.lane_id ELSE jobs_enter(
            NEW.queue, NEW.priority, NEW.owner_id, NEW.group_id, NEW.requirement_id, coalesce(
                (SELECT lane.avoid FROM jobs_lane AS lane WHERE lane.id = live.lane_id), '{}'), live.run_at) END
    WHERE live.job_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER a_live_row_follows_its_record
AFTER UPDATE OF queue, priority, owner_id, group_id, requirement_id, expires_at, timeout_s, is_metered ON jobs_job FOR EACH ROW
WHEN ((OLD.queue, OLD.priority, OLD.owner_id, OLD.group_id, OLD.requirement_id, OLD.expires_at, OLD.timeout_s, OLD.is_metered)
      IS DISTINCT FROM
      (NEW.queue, NEW.priority, NEW.owner_id, NEW.group_id, NEW.requirement_id, NEW.expires_at, NEW.timeout_s, NEW.is_metered))
EXECUTE FUNCTION jobs_follow_record();

-- The lane of a queue's plain jobs is there with the queue and stays: mutations side by side that submit to a new lane would
-- each make it, and collide.
CREATE FUNCTION jobs_first_lane() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_lane (queue, priority, is_apart, owner_id, group_id, requirement_id, required_id, avoid)
    VALUES (NEW.name, 0, NEW.by_owner, 0, 0, 0, 0, '{}');
    RETURN NULL;
END $$;
CREATE TRIGGER a_new_queue_has_a_lane AFTER INSERT ON jobs_queue FOR EACH ROW EXECUTE FUNCTION jobs_first_lane();

-- A queue keeps owners apart from the first worker of a member's on that may take from it. Waiting jobs follow (part.sql).
CREATE FUNCTION jobs_keep_apart() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobs_queue SET by_owner = true
    WHERE NOT by_owner AND ARRAY[name, '*']::varchar[] && (NEW.queues || NEW.steals);
    RETURN NULL;
END $$;
CREATE TRIGGER a_worker_of_a_member_finds_lanes_of_its_owner
AFTER INSERT OR UPDATE OF queues, steals, owner_id ON jobs_worker FOR EACH ROW
WHEN (NEW.owner_id IS NOT NULL)
EXECUTE FUNCTION jobs_keep_apart();
CREATE FUNCTION jobs_begin_apart() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.by_owner := EXISTS (SELECT FROM jobs_worker AS worker WHERE worker.owner_id IS NOT NULL AND worker.revoked_at IS NULL
                            AND ARRAY[NEW.name, '*']::varchar[] && (worker.queues || worker.steals));
    RETURN NEW;
END $$;
CREATE TRIGGER a_new_queue_keeps_apart_what_members_take BEFORE INSERT ON jobs_queue FOR EACH ROW
EXECUTE FUNCTION jobs_begin_apart();

-- Reverse
DROP TRIGGER a_new_queue_keeps_apart_what_members_take ON jobs_queue;
DROP TRIGGER a_new_queue_has_a_lane ON jobs_queue;
DROP FUNCTION jobs_first_lane();
DROP TRIGGER a_worker_of_a_member_finds_lanes_of_its_owner ON jobs_worker;
DROP FUNCTION jobs_begin_apart();
DROP FUNCTION jobs_keep_apart();
DROP TRIGGER a_live_row_follows_its_record ON jobs_job;
DROP TRIGGER a_waiting_job_is_in_its_lane ON jobs_live;
DROP TRIGGER a_new_job_waits_in_its_lane ON jobs_live;
DROP FUNCTION jobs_follow_record();
DROP FUNCTION jobs_keep_lane();
DROP FUNCTION jobs_takes_until(integer, integer[], float8, float8);
DROP FUNCTION jobs_room(text, boolean);
DROP FUNCTION jobs_delete_lane(integer);
DROP FUNCTION jobs_tidy(integer);
DROP FUNCTION jobs_enter(text, smallint, integer, integer, integer, bigint[], timestamptz);
DROP FUNCTION jobs_wake(integer, timestamptz);
