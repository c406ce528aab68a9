-- A step that is let go stays in the lane that it waits in, where that still fits: it was entered anew, by five statements of
-- 40 us in all. And an end lets go by fewer statements: 238 to 192 us in all. Migration 0030 runs this file.

-- The lane of a job that waits. One that only becomes due at another time keeps its own, unless its queue has other shares
-- by now, its owner is paused, or age had raised it.
CREATE OR REPLACE FUNCTION jobs_keep_lane() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- Let those of these jobs start that wait in a flow and that nobody else has locked or has just changed, each from its moment
-- on; their lanes wake by a trigger. The caller knows that they wait for nothing more.
CREATE OR REPLACE FUNCTION jobs_let_go(ids bigint[])
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

-- These jobs end in this transaction, in flows: what comes after them and waits for nothing more, as far as they see, is let go
-- (with a `queue`); of the others those that left a note, for who looks once that is committed (sql/released.sql). Of many
-- that end at once before the same job one leaves it. A job that did not succeed leaves its own: what comes after it names it.
CREATE OR REPLACE FUNCTION jobs_close_edges(ids bigint[], succeeded boolean)
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

-- Reverse
