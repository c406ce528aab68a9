-- Every function and trigger of the heart, as the last migration left it: to be read, nothing runs this file.
-- Written by scripts/generated.py (`make docs`) from the migrations beside it, what they say of each oldest first.


-- 0001_guards

-- The WHERE clauses of our statements are the first line (docs/promises.md); the guards hold for everybody else, a person
-- at psql included. enable_seqscan: each session keeps its plans, and those made of empty tables would read whole ones.
CREATE FUNCTION jobs_refuse() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    may_go CONSTANT text[] := ARRAY['result', 'detail', 'next_seq', 'output_bytes', 'earlier_output_bytes'];
BEGIN
    IF to_jsonb(OLD) - may_go = to_jsonb(NEW) - may_go
       AND EXISTS (SELECT FROM jobs_contentdeletion AS deletion WHERE deletion.job_id = OLD.job_id
                   AND (NEW.result IS NULL AND NEW.detail IS NULL OR deletion.patterns <> '' AND deletion.deleted_at IS NULL)) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% (job %)', TG_ARGV[0], OLD.job_id USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER an_ended_job_is_never_changed BEFORE UPDATE ON jobs_outcome FOR EACH ROW
EXECUTE FUNCTION jobs_refuse('an ended job is never changed');

-- A live row goes by the end of its job alone: whoever deletes it writes the outcome in the same statement. This looks once
-- at all that a statement deleted.
-- Jobs have ended: what that frees and charges is done for all of a statement at once, and for most it is nothing, as one
-- look says. OFFSET 0: each outcome is looked up in its index.
CREATE FUNCTION jobs_keep_live() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    lost bigint;
BEGIN
    PERFORM FROM gone AS one
    WHERE one.has_key OR one.counted_in IS NOT NULL OR one.output_bytes <> 0
       OR NOT EXISTS (SELECT FROM jobs_outcome AS outcome WHERE outcome.job_id = one.job_id OFFSET 0) LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT one.job_id INTO lost FROM gone AS one
    WHERE NOT EXISTS (SELECT FROM jobs_outcome AS outcome WHERE outcome.job_id = one.job_id OFFSET 0) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a job that has not ended is never deleted (job %)', lost USING ERRCODE = 'restrict_violation';
    END IF;
    PERFORM jobs_leave_key(one.job_id) FROM gone AS one WHERE one.has_key;
    INSERT INTO jobs_charge (queue, share, seconds)
    SELECT queue.name, jobs_share(queue.fair, one.owner_id, one.group_id, one.key_id),
           greatest(extract(epoch FROM clock_timestamp() - one.claimed_at), 0)
    FROM gone AS one CROSS JOIN LATERAL (
        SELECT found.name, found.fair FROM jobs_queue AS found WHERE found.name = one.counted_in OFFSET 0) AS queue
    WHERE queue.fair <> 'off';
    INSERT INTO jobs_usagedelta (owner_id, output_bytes)
    SELECT one.owner_id, one.output_bytes & 1048575 FROM gone AS one
    WHERE one.lease_secret IS NOT NULL AND one.output_bytes & 1048575 <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER a_live_job_is_never_deleted AFTER DELETE ON jobs_live REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION jobs_keep_live();

-- A record. What it is to do is never changed, and nothing else once it has ended but whom it belongs to, who may go away;
-- what later migrations add is guarded too. This is not on the way of a job: who updates a record is a person.
-- A payload is changed in one way alone: a newer submit of its unique_key replaces it, and says when, while the job waits
-- and no worker has ever begun it. What its claims bring is what it was begun with, and stays.
-- A job may come to belong to a flow, or to another one, whenever others come after it.
CREATE FUNCTION jobs_keep_record() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    may_go text[] := ARRAY['owner_id', 'group_id', 'retry_of_id', 'flow_id'];
    is_deletion CONSTANT boolean := NEW.inputs IS NULL
        AND OLD.replaced_at IS NOT DISTINCT FROM NEW.replaced_at
        AND EXISTS (SELECT FROM jobs_contentdeletion AS deletion WHERE deletion.job_id = OLD.id
                    AND (NEW.payload = 'null' OR deletion.patterns <> '' AND deletion.deleted_at IS NULL))
        AND EXISTS (SELECT FROM jobs_outcome AS outcome WHERE outcome.job_id = OLD.id);
BEGIN
    IF is_deletion THEN
        may_go := may_go || ARRAY['payload', 'inputs'];
    END IF;
    IF to_jsonb(OLD) - may_go IS DISTINCT FROM to_jsonb(NEW) - may_go
       AND EXISTS (SELECT FROM jobs_outcome AS outcome WHERE outcome.job_id = OLD.id) THEN
        RAISE EXCEPTION 'an ended job is never changed (job %)', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    IF (OLD.id, OLD.kind) IS DISTINCT FROM (NEW.id, NEW.kind)
       OR (OLD.payload, OLD.traceparent) IS DISTINCT FROM (NEW.payload, NEW.traceparent) AND NOT is_deletion
          AND NOT (NEW.replaced_at IS NOT NULL AND NEW.replaced_at IS DISTINCT FROM OLD.replaced_at
                   AND EXISTS (SELECT FROM jobs_live AS live WHERE live.job_id = OLD.id AND live.has_key
                               AND live.lease_expires_at IS NULL AND live.confirmed_fence + 0 = 0)) THEN
        RAISE EXCEPTION 'a payload is never changed (job %)', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER a_record_is_kept BEFORE UPDATE ON jobs_job FOR EACH ROW EXECUTE FUNCTION jobs_keep_record();

-- A record is deleted with its outcome, and what it wrote is taken off its owner's usage (0001_usage.sql).
CREATE FUNCTION jobs_delete_record() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    freed bigint;
BEGIN
    IF EXISTS (SELECT FROM jobs_live AS live WHERE live.job_id = OLD.id) THEN
        RAISE EXCEPTION 'a job that has not ended is never deleted (job %)', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    DELETE FROM jobs_outcome AS outcome WHERE outcome.job_id = OLD.id
    RETURNING outcome.earlier_output_bytes + outcome.output_bytes INTO freed;
    IF freed > 0 THEN
        INSERT INTO jobs_usagedelta (owner_id, output_bytes) VALUES (OLD.owner_id, -freed);
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER a_record_goes_with_its_outcome BEFORE DELETE ON jobs_job FOR EACH ROW EXECUTE FUNCTION jobs_delete_record();

-- An outcome goes with its record, not alone: it is looked for when the transaction ends, for the record goes afterwards.
CREATE FUNCTION jobs_keep_outcome() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    IF EXISTS (SELECT FROM jobs_job WHERE id = OLD.job_id) THEN
        RAISE EXCEPTION 'an outcome goes with its job (job %)', OLD.job_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER an_outcome_goes_with_its_job AFTER DELETE ON jobs_outcome
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION jobs_keep_outcome();

-- A job comes to have no owner when its owner is deleted. Those without one share a space of keys, the site's own: two
-- people with the same key could not both be deleted, and what the site submits would be refused for a stranger's job
-- (docs/adr/0049).
-- One that waits behind another and loses its owner, and so the key, waits for nobody any more; one that comes after others
-- of its flow still does.
CREATE FUNCTION jobs_forget_key() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE jobs_live SET has_key = false,
        run_at = CASE WHEN EXISTS (SELECT FROM jobs_uniquekey AS living WHERE living.follower_id = OLD.id)
                      THEN statement_timestamp() ELSE run_at END
    WHERE job_id = OLD.id AND has_key;
    IF FOUND THEN
        PERFORM jobs_leave_key(OLD.id);
        NEW.unique_key := NULL;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER a_key_goes_with_its_owner BEFORE UPDATE OF owner_id ON jobs_job FOR EACH ROW
WHEN (OLD.owner_id IS NOT NULL AND NEW.owner_id IS NULL AND OLD.unique_key IS NOT NULL)
EXECUTE FUNCTION jobs_forget_key();


-- 0001_lanes

-- The caller's transaction has put a job into this lane that is due at `due`, or will. False: there is no such lane.
-- Whoever puts something in shares the lane's lock until they commit, and jobs_tidy has it alone. The functions are
-- volatile: each statement in them sees what was committed before it began, so after the lock. A serializable
-- transaction sees no more than at its beginning, and leaves a mark in any case.
-- A mark is inserted, never moved from here: a transaction that stays open keeps nobody waiting. 256 locks, for a bulk
-- may meet thousands of lanes, and the server's table of locks is everybody's.
-- enable_seqscan: each session keeps its plans, and those that were made of empty tables would read whole ones later.
-- A lane of jobs of an owner that is paused has no mark: no claim, and nobody who asks what could be claimed, looks there.
CREATE FUNCTION jobs_wake(lane integer, due timestamptz) RETURNS boolean
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
    FROM jobs_lane AS one
    WHERE one.id = lane AND (one.held_for = 0
                             OR NOT EXISTS (SELECT FROM jobs_pausedowner AS paused WHERE paused.owner_id = one.held_for));
    RETURN FOUND OR EXISTS (SELECT FROM jobs_lane AS one WHERE one.id = lane);
END $$;

-- The lane of jobs like this, which is awake from `due` on; it is made if it is not there. Nobody waits for a lane that
-- another transaction is making: they make one more, and the first of them gets what comes.
-- `+ 0`: a plan of few lanes would else look through all of them in order of id, in a session that keeps it.
-- For submits of the version before, until they are restarted.
-- As before, and of jobs that count as by so much more urgent than `level`.
CREATE FUNCTION jobs_enter(
    of_queue text, level smallint, owner integer, grp integer, requirement integer, avoided bigint[], due timestamptz,
    key integer, more integer)
RETURNS integer LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    apart boolean := false;
    mode text := 'off';
    whose integer;
    theirs integer;
    part integer;
    paused integer := coalesce((SELECT one.owner_id FROM jobs_pausedowner AS one WHERE one.owner_id = owner), 0);
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
        WHERE lane.queue = of_queue AND lane.priority = level + more AND lane.is_apart = apart AND lane.owner_id = whose
          AND lane.group_id = theirs AND lane.requirement_id = coalesce(requirement, 0) AND lane.share = part
          AND lane.key_id = coalesce(key, 0)
          AND hash_array(lane.avoid) = hash_array(avoided) AND lane.avoid = avoided AND lane.fair = mode
          AND lane.held_for = paused AND lane.raised = more
        ORDER BY lane.id + 0 LIMIT 1;
        IF NOT FOUND THEN
            INSERT INTO jobs_lane (
                queue, priority, is_apart, owner_id, group_id, requirement_id, required_id, avoid, fair, share, key_id, held_for,
                raised)
            SELECT of_queue, level + more, apart, whose, theirs, coalesce(requirement, 0), coalesce((
                       SELECT CASE WHEN one.prefers = '{}' THEN one.id ELSE one.base_id END
                       FROM jobs_requirement AS one WHERE one.id = requirement), 0), avoided, mode, part, coalesce(key, 0), paused,
                   more
            RETURNING id INTO found_id;
        END IF;
        IF jobs_wake(found_id, due) THEN
            RETURN found_id;
        END IF;
    END LOOP;
END $$;
CREATE FUNCTION jobs_enter(
    of_queue text, level smallint, owner integer, grp integer, requirement integer, avoided bigint[], due timestamptz,
    key integer)
RETURNS integer LANGUAGE sql AS $$
    SELECT jobs_enter(of_queue, level, owner, grp, requirement, avoided, due, key, 0)
$$;
CREATE FUNCTION jobs_enter(
    of_queue text, level smallint, owner integer, grp integer, requirement integer, avoided bigint[], due timestamptz)
RETURNS integer LANGUAGE sql AS $$
    SELECT jobs_enter(of_queue, level, owner, grp, requirement, avoided, due, NULL)
$$;

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
-- The lane of a job that waits. One that only becomes due at another time keeps its own, unless its queue has other shares
-- by now, its owner is paused, or age had raised it.
CREATE FUNCTION jobs_keep_lane() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    level smallint;
    avoided bigint[];
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.queue, NEW.owner_id, NEW.group_id, NEW.requirement_id)
                            IS NOT DISTINCT FROM (OLD.queue, OLD.owner_id, OLD.group_id, OLD.requirement_id) THEN
        PERFORM FROM jobs_lane AS lane CROSS JOIN jobs_queue AS queue
        WHERE lane.id = NEW.lane_id AND queue.name = NEW.queue AND lane.is_apart = queue.by_owner AND lane.fair = queue.fair
          AND lane.raised = 0
          AND lane.held_for = coalesce((SELECT one.owner_id FROM jobs_pausedowner AS one WHERE one.owner_id = NEW.owner_id), 0);
        IF FOUND AND jobs_wake(NEW.lane_id, NEW.run_at) THEN
            RETURN NEW;
        END IF;
    END IF;
    SELECT job.priority, coalesce((SELECT lane.avoid FROM jobs_lane AS lane WHERE lane.id = NEW.lane_id), '{}')
    INTO level, avoided FROM jobs_job AS job WHERE job.id = NEW.job_id;
    NEW.lane_id := jobs_enter(NEW.queue, coalesce(level, 0::smallint), NEW.owner_id, NEW.group_id, NEW.requirement_id,
                              coalesce(avoided, '{}'), NEW.run_at, NEW.key_id);
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
                (SELECT lane.avoid FROM jobs_lane AS lane WHERE lane.id = live.lane_id), '{}'), live.run_at,
            jobs_key_in(live.key_id, NEW.queue)) END,
        key_id = jobs_key_in(live.key_id, NEW.queue)
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


-- 0001_usage

-- Output is charged when an attempt ends, and of one that runs by whole MiB: pieces come by the thousand, and this way
-- one in tens of thousands writes a second row.
CREATE FUNCTION jobs_kept_output(earlier bigint, output bigint, lease uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN earlier + CASE WHEN lease IS NULL THEN output ELSE output & -1048576::bigint END;

-- The trigger names its columns: heartbeats set none of them and are not asked. Its condition is jobs_kept_output,
-- inlined.
-- Whether what a job keeps has changed is asked here: the whole condition cost a claim of one job 8 %, this one 2.
CREATE FUNCTION jobs_charge_output() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    more CONSTANT bigint := jobs_kept_output(NEW.earlier_output_bytes, NEW.output_bytes, NEW.lease_secret)
        - jobs_kept_output(OLD.earlier_output_bytes, OLD.output_bytes, OLD.lease_secret);
BEGIN
    IF more <> 0 THEN
        INSERT INTO jobs_usagedelta (owner_id, output_bytes) VALUES (OLD.owner_id, more);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER what_a_job_wrote_is_charged
AFTER UPDATE OF lease_secret, output_bytes, earlier_output_bytes ON jobs_live FOR EACH ROW
WHEN (OLD.output_bytes | NEW.output_bytes <> 0) EXECUTE FUNCTION jobs_charge_output();

-- A job that goes to another owner takes with it what it keeps.
CREATE FUNCTION jobs_charge_new_owner() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO jobs_usagedelta (owner_id, output_bytes, files, file_bytes)
    SELECT whose.owner_id, whose.sign * kept.output, whose.sign * kept.files, whose.sign * kept.bytes
    FROM (SELECT coalesce(
                     (SELECT jobs_kept_output(live.earlier_output_bytes, live.output_bytes, live.lease_secret)
                      FROM jobs_live AS live WHERE live.job_id = NEW.id),
                     (SELECT outcome.earlier_output_bytes + outcome.output_bytes
                      FROM jobs_outcome AS outcome WHERE outcome.job_id = NEW.id), 0) AS output,
                 count(*) AS files, coalesce(sum(size), 0)::bigint AS bytes
          FROM jobs_resultfile WHERE job_id = NEW.id) AS kept
    CROSS JOIN (VALUES (OLD.owner_id, -1), (NEW.owner_id, 1)) AS whose (owner_id, sign)
    WHERE kept.output > 0 OR kept.files > 0;
    RETURN NULL;
END $$;

CREATE TRIGGER what_a_job_keeps_goes_with_its_owner AFTER UPDATE OF owner_id ON jobs_job FOR EACH ROW
WHEN (OLD.owner_id IS DISTINCT FROM NEW.owner_id) EXECUTE FUNCTION jobs_charge_new_owner();

-- Files, all of a statement at once. Retention deletes them together with their jobs, which are gone when the trigger
-- asks whose they were: jobs/sql/retain.sql writes that difference itself.
CREATE FUNCTION jobs_charge_files() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO jobs_usagedelta (owner_id, files, file_bytes)
        SELECT job.owner_id, count(*), sum(file.size)
        FROM becomes AS file JOIN jobs_job AS job ON job.id = file.job_id GROUP BY job.owner_id;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO jobs_usagedelta (owner_id, files, file_bytes)
        SELECT job.owner_id, -count(*), -sum(file.size)
        FROM was AS file JOIN jobs_job AS job ON job.id = file.job_id GROUP BY job.owner_id;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER new_files_are_charged AFTER INSERT ON jobs_resultfile
REFERENCING NEW TABLE AS becomes FOR EACH STATEMENT EXECUTE FUNCTION jobs_charge_files();

CREATE TRIGGER replaced_files_are_charged AFTER UPDATE ON jobs_resultfile
REFERENCING OLD TABLE AS was NEW TABLE AS becomes FOR EACH STATEMENT EXECUTE FUNCTION jobs_charge_files();

CREATE TRIGGER deleted_files_are_free AFTER DELETE ON jobs_resultfile
REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION jobs_charge_files();

-- Uploads are charged to whoever uploaded them, as result files are to the owner of their job (above): a
-- delta for each owner that a statement changed something for.
CREATE FUNCTION jobs_charge_uploads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO jobs_usagedelta (owner_id, files, file_bytes)
        SELECT owner_id, count(*), sum(size) FROM becomes GROUP BY owner_id;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO jobs_usagedelta (owner_id, files, file_bytes)
        SELECT owner_id, -count(*), -sum(size) FROM was GROUP BY owner_id;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER new_uploads_are_charged AFTER INSERT ON jobs_upload
REFERENCING NEW TABLE AS becomes FOR EACH STATEMENT EXECUTE FUNCTION jobs_charge_uploads();

CREATE TRIGGER uploads_go_with_their_owner AFTER UPDATE ON jobs_upload
REFERENCING OLD TABLE AS was NEW TABLE AS becomes FOR EACH STATEMENT EXECUTE FUNCTION jobs_charge_uploads();

CREATE TRIGGER deleted_uploads_are_free AFTER DELETE ON jobs_upload
REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION jobs_charge_uploads();


-- 0002_reads

-- The first jobs of a lane that a worker might begin, due from `since` until `until`, `most` at most, with their `place`.
CREATE FUNCTION jobs_due(lane integer, since timestamptz, until timestamptz, most bigint)
RETURNS TABLE (job_id bigint, run_at timestamptz, owner_id integer, group_id integer, place bigint)
LANGUAGE sql STABLE AS $$
    SELECT job.job_id, job.run_at, job.owner_id, job.group_id, row_number() OVER (ORDER BY job.run_at, job.job_id)
    FROM jobs_live AS job
    WHERE job.lease_secret IS NULL AND job.lane_id = lane AND job.run_at >= since AND job.run_at <= until
      AND (job.expires_at IS NULL OR job.expires_at > statement_timestamp() OR job.confirmed_fence > 0)
    ORDER BY job.run_at, job.job_id LIMIT most
$$;

-- Workers whose keys open something and whose owners may log in, that were seen lately, with the groups that they serve.
CREATE FUNCTION jobs_live_workers(alive_s float8)
RETURNS TABLE (id bigint, name varchar, owner_id integer, groups integer[], queues varchar[], steals varchar[],
               polled varchar[], satisfies integer[], is_drained boolean)
LANGUAGE sql STABLE AS $$
    SELECT worker.id, worker.name, worker.owner_id,
           ARRAY(SELECT membership.group_id FROM auth_user_groups AS membership WHERE membership.user_id = worker.owner_id),
           worker.queues, worker.steals, worker.polled_queues, worker.satisfies, worker.drained_at IS NOT NULL
    FROM jobs_worker AS worker LEFT JOIN auth_user AS person ON person.id = worker.owner_id
    WHERE worker.revoked_at IS NULL AND coalesce(person.is_active, true)
      AND worker.last_seen_at > statement_timestamp() - make_interval(secs => alive_s)
$$;

-- The worker, if its row is the version that somebody read (docs/adr/0115).
CREATE FUNCTION jobs_as_read(reader bigint, version xid) RETURNS TABLE (id bigint) LANGUAGE sql STABLE AS $$
    SELECT worker.id FROM jobs_worker AS worker LEFT JOIN auth_user AS person ON person.id = worker.owner_id
    WHERE worker.id = reader AND worker.xmin = version AND coalesce(person.is_active, true)
$$;


-- 0005_followers

-- A job leaves its key, since it ends or loses it. Who waits behind it has the key then and is due, in the same transaction:
-- nobody can be stranded. Rows of live are locked before those of keys, as by who submits. The caller holds the job's.
-- A follower that leaves is one that nobody waits for.
CREATE FUNCTION jobs_leave_key(leaver bigint) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    next_id bigint;
    living jobs_uniquekey;
BEGIN
    SELECT follower_id INTO next_id FROM jobs_uniquekey WHERE job_id = leaver;
    IF next_id IS NOT NULL THEN
        PERFORM FROM jobs_live WHERE job_id = next_id FOR UPDATE;
    END IF;
    DELETE FROM jobs_uniquekey WHERE job_id = leaver RETURNING * INTO living;
    IF NOT FOUND THEN
        UPDATE jobs_uniquekey SET follower_id = NULL, follower_due_at = NULL WHERE follower_id = leaver;
    ELSIF living.follower_id IS NOT NULL THEN
        INSERT INTO jobs_uniquekey (job_id, kind, unique_key, owner_id)
        VALUES (living.follower_id, living.kind, living.unique_key, living.owner_id);
        UPDATE jobs_live SET run_at = greatest(living.follower_due_at, statement_timestamp())
        WHERE job_id = living.follower_id;
    END IF;
END $$;


-- 0008_shares_and_keys

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
-- served next, or where nobody waits than who was served the most. What waits for a later moment is not among them.
CREATE FUNCTION jobs_served_of(of_queue text, part integer) RETURNS float8 LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    RETURN greatest(0, (SELECT one.seconds FROM jobs_served AS one WHERE one.queue = of_queue AND one.share = part), coalesce(
        (SELECT mark.served FROM jobs_mark AS mark
         WHERE mark.queue = of_queue AND mark.share <> 0 AND mark.at <= statement_timestamp()
         ORDER BY mark.priority DESC, mark.served LIMIT 1),
        (SELECT max(one.seconds) FROM jobs_served AS one WHERE one.queue = of_queue AND one.share <> 0)));
END $$;

-- How many more jobs of a queue may run (null: any number), and how it is shared out. Who takes from a queue with a ceiling,
-- or a fair one, is alone with it until their transaction ends, and sees what the one before them committed. `waits` false:
-- 0 rather than wait for them, as after three quarters of a second in any case: who holds a claim's transaction open keeps
-- nobody from other queues. A transaction with one snapshot cannot see that, and is given none; where neither was in its
-- snapshot it fails with 40001 if one was set since. Some hundred locks, for a worker may steal from thousands of queues,
-- and the server's table of locks is everybody's.
-- Whoever sets one of them waits for the claims of the queue that are under way (queries.keys.set_bounds).
-- It takes the place of jobs_room, which claims of the version before ask until they are restarted.
-- As 0008_shares_and_keys.sql says. A lock that somebody waits for alone is not free: who sets a bound is not passed over.
CREATE FUNCTION jobs_open(of_queue text, waits boolean, OUT room bigint, OUT fair text)
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

-- Who takes back a run sets `failures` too; a claim does not.
CREATE TRIGGER a_run_that_failed_is_charged AFTER UPDATE OF failures ON jobs_live FOR EACH ROW
WHEN (OLD.counted_in IS NOT NULL AND NEW.counted_in IS NULL
      AND (NEW.confirmed_fence >= OLD.fence OR NEW.unconfirmed > OLD.unconfirmed)) EXECUTE FUNCTION jobs_charge_share();

-- How long a run of this fair queue takes, about: one that has just begun counts for so much. Kept as the share 0.
CREATE FUNCTION jobs_usual_run(of_queue text) RETURNS float8 LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN greatest(coalesce(
        (SELECT one.seconds FROM jobs_served AS one WHERE one.queue = of_queue AND one.share = 0), 1), 1e-3);
END $$;

-- Add up what was noted of a fair queue; who calls is alone with it. A share that waits has been served what its marks say:
-- what it had run before it was away is less.
CREATE FUNCTION jobs_fold_charges(of_queue text, mode text) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- A job that moves to another queue has its key there, if that is a queue's. The queue's row is locked for it, as by a submit:
-- who sets a bound waits, and finds the key. Migration 0035 runs this file.
CREATE FUNCTION jobs_key_in(key integer, of_queue text) RETURNS integer LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moved integer := key;
    known jobs_concurrencykey;
BEGIN
    SELECT * INTO known FROM jobs_concurrencykey AS one WHERE one.id = key;
    IF known.queue <> '' AND known.queue <> of_queue THEN
        INSERT INTO jobs_concurrencykey (kind, queue, name, bound)
        SELECT '', of_queue, known.name, (SELECT queue.of_key FROM jobs_queue AS queue WHERE queue.name = of_queue FOR KEY SHARE)
        ON CONFLICT (kind, queue, name) DO UPDATE SET used_at = statement_timestamp() RETURNING id INTO moved;
    END IF;
    RETURN moved;
END $$;


-- 0010_flows

-- These jobs of flows ended in this transaction: their edges are closed by it alone, no end waits for another. What comes
-- after them and waits for nothing more, as far as this transaction sees, is let go at once, in a row with its `queue`. Of two
-- ends at the same moment neither sees the other: then, and for all that cannot be let go here, notes stay for who looks once
-- that is committed (sql/released.sql): of each that did not succeed, and else one for each that waits. Whose they are is in
-- rows without a `queue`. `succeeded`: all of them did; where the caller does not know, each is looked up.
-- These jobs end in this transaction, in flows: what comes after them and waits for nothing more, as far as they see, is let go
-- (with a `queue`); of the others those that left a note, for who looks once that is committed (sql/released.sql). Of many
-- that end at once before the same job one leaves it. A job that did not succeed leaves its own: what comes after it names it.
CREATE FUNCTION jobs_close_edges(ids bigint[], succeeded boolean)
RETURNS TABLE (id bigint, queue text, due_at timestamptz, is_later boolean) LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    later bigint[];  -- of each edge
    before bigint[];
    steps integer;
    free bigint[];
    went integer := 0;
BEGIN
    WITH closed AS (
        UPDATE jobs_edge SET open_of = NULL
        WHERE after_id = ANY (ids) AND open_of + 0 IS NOT NULL  -- in words that the index of open edges does not have
        RETURNING job_id, after_id
    )
    SELECT array_agg(job_id), array_agg(after_id) INTO later, before FROM closed;
    -- A transaction that reads what was there when it began may miss edges that came since: who looks does it once more.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN QUERY INSERT INTO jobs_endedstep (job_id) SELECT unnest(ids)
            RETURNING job_id, NULL, NULL::timestamptz, NULL::boolean;
    END IF;
    IF later IS NULL THEN
        RETURN;
    END IF;
    -- OFFSET 0: each is asked of one job after the other, in an index, and what is open is known at the first entry.
    SELECT count(*), array_agg(each.id) FILTER (WHERE CASE
               WHEN EXISTS (SELECT FROM jobs_edge AS open WHERE open.open_of = each.id OFFSET 0) THEN false
               ELSE NOT EXISTS (
                   SELECT FROM jobs_edge AS edge CROSS JOIN LATERAL (
                       SELECT one.status FROM jobs_outcome AS one WHERE one.job_id = edge.after_id OFFSET 0) AS outcome
                   WHERE edge.job_id = each.id AND edge.condition = 'success' AND outcome.status <> 'success' OFFSET 0) END)
    INTO steps, free FROM (SELECT DISTINCT unnest(later)) AS each (id);
    IF cardinality(free) <= 100 THEN  -- of more this end would take long
        BEGIN
            RETURN QUERY SELECT * FROM jobs_let_go(free);
            GET DIAGNOSTICS went = ROW_COUNT;
        EXCEPTION WHEN OTHERS THEN  -- one that cannot be let go stops no end
            went := 0;
        END;
    END IF;
    IF went = steps THEN
        RETURN;
    END IF;
    IF went < cardinality(free) THEN  -- which of them, is looked at then
        free := NULL;
    END IF;
    RETURN QUERY
        INSERT INTO jobs_endedstep (job_id)
        SELECT DISTINCT CASE WHEN edge.is_fine THEN min(edge.before) FILTER (WHERE edge.is_fine) OVER (PARTITION BY edge.later)
                             ELSE edge.before END
        FROM (
            SELECT each.later, each.before, succeeded OR (
                SELECT one.status FROM jobs_outcome AS one WHERE one.job_id = each.before OFFSET 0) = 'success' AS is_fine
            FROM unnest(later, before) AS each (later, before) WHERE each.later <> ALL (coalesce(free, '{}'))) AS edge
        RETURNING job_id, NULL, NULL::timestamptz, NULL::boolean;
END $$;
CREATE FUNCTION jobs_close_edges(ids bigint[])
RETURNS TABLE (id bigint, queue text, due_at timestamptz, is_later boolean) LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    later bigint[];  -- of each edge
    before bigint[];
    free bigint[];
    gone bigint[] := '{}';
    queues text[];
    moments timestamptz[];
    are_later boolean[];
BEGIN
    WITH closed AS (
        UPDATE jobs_edge SET open_of = NULL
        WHERE ctid = ANY (ARRAY(
            SELECT edge.tid FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
                SELECT one.ctid AS tid FROM jobs_edge AS one
                WHERE one.after_id = given.id AND one.open_of IS NOT NULL OFFSET 0) AS edge))
        RETURNING job_id, after_id
    )
    SELECT array_agg(job_id), array_agg(after_id) INTO later, before FROM closed;
    -- A transaction that reads what was there when it began may miss edges that came since: who looks does it once more.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN QUERY INSERT INTO jobs_endedstep (job_id) SELECT unnest(ids)
            RETURNING job_id, NULL, NULL::timestamptz, NULL::boolean;
    END IF;
    IF later IS NULL THEN
        RETURN;
    END IF;
    -- OFFSET 0: each is asked of one job after the other, in an index, and what is open is known at the first entry.
    SELECT array_agg(each.id) INTO free FROM (SELECT DISTINCT unnest(later)) AS each (id)
    WHERE CASE WHEN EXISTS (SELECT FROM jobs_edge AS open WHERE open.open_of = each.id OFFSET 0) THEN false
               ELSE NOT EXISTS (
                   SELECT FROM jobs_edge AS edge CROSS JOIN LATERAL (
                       SELECT one.status FROM jobs_outcome AS one WHERE one.job_id = edge.after_id OFFSET 0) AS outcome
                   WHERE edge.job_id = each.id AND edge.condition = 'success' AND outcome.status <> 'success' OFFSET 0)
          END;
    IF cardinality(free) <= 100 THEN  -- of more this end would take long
        BEGIN
            SELECT coalesce(array_agg(go.job_id), '{}'), array_agg(go.queue), array_agg(go.due_at), array_agg(go.is_later)
            INTO gone, queues, moments, are_later FROM jobs_let_go(free) AS go;
            RETURN QUERY SELECT * FROM unnest(gone, queues, moments, are_later);
        EXCEPTION WHEN OTHERS THEN  -- one that cannot be let go stops no end
            gone := '{}';
        END;
    END IF;
    IF later <@ gone THEN
        RETURN;
    END IF;
    RETURN QUERY
        INSERT INTO jobs_endedstep (job_id)
        SELECT DISTINCT CASE WHEN outcome.status = 'success' THEN min(edge.before) FILTER (WHERE outcome.status = 'success')
                                                                  OVER (PARTITION BY edge.later) ELSE edge.before END
        FROM unnest(later, before) AS edge (later, before) CROSS JOIN LATERAL (
            SELECT one.status FROM jobs_outcome AS one WHERE one.job_id = edge.before OFFSET 0) AS outcome
        WHERE edge.later <> ALL (gone)
        RETURNING job_id, NULL, NULL::timestamptz, NULL::boolean;
END $$;

-- Whether any job of this flow has not ended.
CREATE FUNCTION jobs_flow_lives(flow bigint) RETURNS boolean LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    RETURN EXISTS (SELECT FROM jobs_job AS job CROSS JOIN LATERAL (
                       SELECT FROM jobs_live AS live WHERE live.job_id = job.id OFFSET 0) AS live
                   WHERE job.flow_id = flow);
END $$;


-- 0013_paused_owners_and_ages

-- By how much more urgent a job of this queue counts that has this priority and has been due since then; up to what is the
-- most urgent that waits: of one priority the oldest is first, or in a fair queue who was served the least.
CREATE FUNCTION jobs_raise(of_queue text, level smallint, since timestamptz) RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT greatest(0, least(
        floor(extract(epoch FROM statement_timestamp() - since) / queue.ages_after),
        coalesce((SELECT mark.priority FROM jobs_mark AS mark WHERE mark.queue = of_queue
                  ORDER BY mark.priority DESC LIMIT 1), level) - level))::integer
    FROM jobs_queue AS queue WHERE queue.name = of_queue AND queue.ages_after IS NOT NULL
$$;


-- 0015_flows_go_on

-- Let those of these jobs start that wait in a flow and that nobody else has locked or has just changed, each from its moment
-- on; their lanes wake by a trigger. The caller knows that they wait for nothing more.
CREATE FUNCTION jobs_let_go(ids bigint[])
RETURNS TABLE (job_id bigint, queue text, due_at timestamptz, is_later boolean) LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        WITH free AS MATERIALIZED (
            SELECT live.tid, live.job_id, more.due_at, more.expires_s
            FROM (SELECT unnest(ids) AS id ORDER BY 1) AS given CROSS JOIN LATERAL (
                SELECT one.ctid AS tid, one.job_id, one.lease_secret, one.run_at FROM jobs_live AS one
                WHERE one.job_id = given.id FOR UPDATE SKIP LOCKED) AS live
            CROSS JOIN LATERAL (
                SELECT greatest(step.due_at, job.limit_until, statement_timestamp()) AS due_at, step.expires_s
                FROM jobs_step AS step CROSS JOIN jobs_job AS job
                WHERE step.job_id = live.job_id AND job.id = live.job_id OFFSET 0) AS more
            WHERE live.lease_secret IS NULL AND live.run_at = '9000-01-01 00:00:00+00'
        ), expiring AS (
            UPDATE jobs_job AS job SET expires_at = free.due_at + make_interval(secs => free.expires_s)
            FROM free WHERE job.id = free.job_id AND free.expires_s IS NOT NULL
        )
        UPDATE jobs_live AS live SET run_at = free.due_at FROM free WHERE live.ctid = free.tid
        RETURNING live.job_id, live.queue::text, live.run_at, live.run_at > statement_timestamp();
END $$;

-- Which of these jobs, whose ends are committed, left notes that are to be looked at: something after them waits for nothing
-- more, or for what did not succeed. Of all others something ends later than this.
CREATE FUNCTION jobs_after_ends(ids bigint[]) RETURNS TABLE (id bigint) LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT given.id FROM unnest(ids) AS given (id)
    WHERE EXISTS (
        SELECT FROM (
            SELECT one.job_id, one.condition, one.open_of FROM jobs_edge AS one WHERE one.after_id = given.id OFFSET 0) AS edge
        WHERE edge.open_of IS NOT NULL OR NOT EXISTS (SELECT FROM jobs_edge AS open WHERE open.open_of = edge.job_id OFFSET 0)
           OR edge.condition = 'success' AND (
               SELECT outcome.status FROM jobs_outcome AS outcome WHERE outcome.job_id = given.id) <> 'success')
      AND EXISTS (SELECT FROM jobs_endedstep AS note WHERE note.job_id = given.id OFFSET 0);
END $$;

-- What these claimed jobs come after, with their results as far as those of one job have `most` bytes together, and of all of
-- them sixteen times that, since a value of a gigabyte fails; what is longer, and whatever stands behind it, comes without. The answer is for the first of them; for any other, `this`, it is null. It is one
-- value: a scan of a function cost each claim 6 %, also where there are no flows.
CREATE FUNCTION jobs_came_after(ids bigint[], this bigint, most bigint)
RETURNS json LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    IF this <> ids[1] THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT json_agg(before ORDER BY before.job_id, before.id) FROM (
            SELECT edge.job_id, edge.after_id AS id, coalesce(step.name, '') AS name, outcome.kind, outcome.status,
                   CASE WHEN sum(octet_length(outcome.result)) OVER (PARTITION BY edge.job_id ORDER BY edge.after_id) <= most
                         AND sum(octet_length(outcome.result)) OVER (ORDER BY edge.job_id, edge.after_id) <= 16 * most
                        THEN outcome.result END AS result, outcome.result IS NOT NULL AS has_result
            FROM unnest(ids) AS given (id)
            CROSS JOIN LATERAL (
                SELECT one.job_id, one.after_id FROM jobs_edge AS one WHERE one.job_id = given.id OFFSET 0) AS edge
            CROSS JOIN LATERAL (
                SELECT one.kind, one.status, one.result::text AS result FROM jobs_outcome AS one
                WHERE one.job_id = edge.after_id OFFSET 0) AS outcome
            LEFT JOIN LATERAL (
                SELECT one.name FROM jobs_step AS one WHERE one.job_id = edge.after_id OFFSET 0) AS step ON true) AS before);
END $$;
CREATE FUNCTION jobs_came_after(ids bigint[], most bigint)
RETURNS TABLE (job_id bigint, id bigint, name text, kind text, status text, result text, has_result boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT edge.job_id, edge.after_id, coalesce(step.name, '')::text, outcome.kind::text, outcome.status::text,
               CASE WHEN sum(octet_length(outcome.result)) OVER (PARTITION BY edge.job_id ORDER BY edge.after_id) <= most
                    THEN outcome.result END, outcome.result IS NOT NULL
        FROM unnest(ids) AS given (id)
        CROSS JOIN LATERAL (SELECT one.job_id, one.after_id FROM jobs_edge AS one WHERE one.job_id = given.id OFFSET 0) AS edge
        CROSS JOIN LATERAL (
            SELECT one.kind, one.status, one.result::text AS result FROM jobs_outcome AS one
            WHERE one.job_id = edge.after_id OFFSET 0) AS outcome
        LEFT JOIN LATERAL (SELECT one.name FROM jobs_step AS one WHERE one.job_id = edge.after_id OFFSET 0) AS step ON true
        ORDER BY edge.job_id, edge.after_id;
END $$;


-- 0025_open_at_once

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


-- 0026_marks_of_a_member

-- The marks of a queue that are due and of this owner's or these groups' lanes, in the order of a claim.
CREATE FUNCTION jobs_marks_of(of_queue text, owner integer, groups integer[]) RETURNS SETOF jobs_mark
LANGUAGE plpgsql STABLE ROWS 10 SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY
        SELECT * FROM (
            SELECT * FROM jobs_mark AS mark WHERE mark.queue = of_queue AND mark.owner_id = owner AND mark.owner_id <> 0
            UNION
            SELECT * FROM jobs_mark AS mark
            WHERE mark.queue = of_queue AND mark.group_id = ANY (groups) AND mark.group_id <> 0) AS scoped
        WHERE scoped.at <= statement_timestamp() ORDER BY scoped.priority DESC, scoped.at, scoped.id;
END $$;


-- 0031_steps_after_as_a_value

-- What jobs_close_edges lets go after successes, as one value: an end that is in no flow does not pay for a scan of it.
-- Migration 0031 runs this file.
CREATE FUNCTION jobs_steps_after(ids bigint[]) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT json_agg(step) FROM jobs_close_edges(ids, true) AS step);
END $$;


-- 0034_key_at_a_place

-- The concurrency key of a job that a claim has just locked, at its place. Asked as a value, of several fair queues alone: as a
-- join it cost every claim of one job 3 %. Migration 0034 runs this file.
CREATE FUNCTION jobs_key_at(place tid) RETURNS integer LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT one.key_id FROM jobs_live AS one WHERE one.ctid = place);
END $$;


-- 0036_plain_farms_pay_less

-- What a claim picks of a fair queue. Of `several` queues it brings how many of each job's key may run: each counts for itself.
CREATE FUNCTION jobs_pick_of_fair(of_queue text, mode text, most bigint, me bigint, mine integer[],
                                  head_start_s float8, alive_s float8, grace_s float8, several boolean)
RETURNS TABLE (tid tid, key_id integer, key_room bigint) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        SELECT fair.tid, CASE WHEN several THEN jobs_key_at(fair.tid) END,
               CASE WHEN several THEN jobs_key_room(jobs_key_at(fair.tid)) END
        FROM jobs_pick_fairly(of_queue, mode, most, me, mine, head_start_s, alive_s, grace_s) AS fair;
END $$;
