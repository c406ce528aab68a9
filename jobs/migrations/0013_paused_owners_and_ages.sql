-- Owners whose jobs are paused, and jobs that count for more the longer they wait (docs/adr/0126). Migration 0013 runs this
-- file.

-- A lane of jobs of an owner that is paused has no mark: no claim, and nobody who asks what could be claimed, looks there.
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
    FROM jobs_lane AS one
    WHERE one.id = lane AND (one.held_for = 0
                             OR NOT EXISTS (SELECT FROM jobs_pausedowner AS paused WHERE paused.owner_id = one.held_for));
    RETURN FOUND OR EXISTS (SELECT FROM jobs_lane AS one WHERE one.id = lane);
END $$;

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

CREATE OR REPLACE FUNCTION jobs_enter(
    of_queue text, level smallint, owner integer, grp integer, requirement integer, avoided bigint[], due timestamptz,
    key integer)
RETURNS integer LANGUAGE sql AS $$
    SELECT jobs_enter(of_queue, level, owner, grp, requirement, avoided, due, key, 0)
$$;

-- By how much more urgent a job of this queue counts that has this priority and has been due since then; up to what is the
-- most urgent that waits: of one priority the oldest is first, or in a fair queue who was served the least.
CREATE FUNCTION jobs_raise(of_queue text, level smallint, since timestamptz) RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT greatest(0, least(
        floor(extract(epoch FROM statement_timestamp() - since) / queue.ages_after),
        coalesce((SELECT mark.priority FROM jobs_mark AS mark WHERE mark.queue = of_queue
                  ORDER BY mark.priority DESC LIMIT 1), level) - level))::integer
    FROM jobs_queue AS queue WHERE queue.name = of_queue AND queue.ages_after IS NOT NULL
$$;

-- Reverse
DROP FUNCTION jobs_raise(text, smallint, timestamptz);
DROP FUNCTION jobs_enter(text, smallint, integer, integer, integer, bigint[], timestamptz, integer, integer);
