-- An end lets go what comes after it, where it is the last one (docs/adr/0127). Migration 0015 runs this file.

-- Let those of these jobs start that wait in a flow and that nobody else has locked, each from its moment on; their lanes
-- wake by a trigger. The caller knows that they wait for nothing more.
CREATE FUNCTION jobs_let_go(ids bigint[])
RETURNS TABLE (job_id bigint, queue text, due_at timestamptz, is_later boolean) LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    free bigint[];
    due timestamptz[];
    expires boolean;
BEGIN
    SELECT array_agg(live.job_id ORDER BY live.job_id), array_agg(more.due_at ORDER BY live.job_id),
           bool_or(more.expires_s IS NOT NULL)
    INTO free, due, expires
    FROM (SELECT unnest(ids) AS id ORDER BY 1) AS given CROSS JOIN LATERAL (
        SELECT one.job_id, one.lease_secret, one.run_at FROM jobs_live AS one WHERE one.job_id = given.id
        FOR UPDATE SKIP LOCKED) AS live
    CROSS JOIN LATERAL (
        SELECT greatest(step.due_at, job.limit_until, statement_timestamp()) AS due_at, step.expires_s
        FROM jobs_step AS step CROSS JOIN jobs_job AS job
        WHERE step.job_id = live.job_id AND job.id = live.job_id OFFSET 0) AS more
    WHERE live.lease_secret IS NULL AND live.run_at = '9000-01-01 00:00:00+00';
    IF expires THEN
        UPDATE jobs_job SET expires_at = due[array_position(free, id)] + make_interval(secs => (
            SELECT step.expires_s FROM jobs_step AS step WHERE step.job_id = id))
        WHERE id = ANY (ARRAY(
            SELECT each.id FROM unnest(free) AS each (id) CROSS JOIN LATERAL (
                SELECT one.expires_s FROM jobs_step AS one WHERE one.job_id = each.id OFFSET 0) AS step
            WHERE step.expires_s IS NOT NULL));
    END IF;
    RETURN QUERY
        UPDATE jobs_live AS live SET run_at = due[array_position(free, live.job_id)]
        WHERE live.ctid = ANY (ARRAY(
            SELECT live.tid FROM unnest(free) AS each (id) CROSS JOIN LATERAL (
                SELECT one.ctid AS tid FROM jobs_live AS one WHERE one.job_id = each.id OFFSET 0) AS live))
        RETURNING live.job_id, live.queue::text, live.run_at, live.run_at > statement_timestamp();
END $$;

-- A job of a flow ended. Its edges are closed in the same transaction, by itself alone: no end waits for another. What comes
-- after it and waits for nothing more, as far as this end sees, is let go at once. Of two ends at the same moment neither sees
-- the other: then, and for all that cannot be let go here, a note stays for who looks once that is committed
-- (sql/released.sql).
CREATE OR REPLACE FUNCTION jobs_close_edges() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    later bigint[];
    free bigint[];
    gone bigint := 0;
BEGIN
    WITH closed AS (
        UPDATE jobs_edge SET open_of = NULL WHERE after_id = OLD.job_id AND open_of IS NOT NULL RETURNING job_id
    )
    SELECT array_agg(job_id) INTO later FROM closed;
    IF later IS NULL THEN
        RETURN NULL;
    END IF;
    -- OFFSET 0: each is asked of one job after the other, in an index, and what is open is known at the first entry.
    SELECT array_agg(each.id) INTO free FROM unnest(later) AS each (id)
    WHERE CASE WHEN EXISTS (SELECT FROM jobs_edge AS open WHERE open.open_of = each.id OFFSET 0) THEN false
               ELSE NOT EXISTS (
                   SELECT FROM jobs_edge AS before CROSS JOIN LATERAL (
                       SELECT one.status FROM jobs_outcome AS one WHERE one.job_id = before.after_id OFFSET 0) AS outcome
                   WHERE before.job_id = each.id AND before.condition = 'success' AND outcome.status <> 'success' OFFSET 0)
          END;
    IF cardinality(free) <= 100 THEN  -- of more this end would take long
        BEGIN
            SELECT count(*) INTO gone FROM jobs_let_go(free);
        EXCEPTION WHEN OTHERS THEN  -- one that cannot be let go stops no end
            gone := 0;
        END;
    END IF;
    IF gone < cardinality(later) THEN
        INSERT INTO jobs_endedstep (job_id) VALUES (OLD.job_id);
    END IF;
    RETURN NULL;
END $$;

-- What is to be said and done after these jobs of flows ended, once that is committed: what comes after them and may start,
-- and was taken by nobody yet; and which of them (`queue` is NULL) left notes, for something after them waits for nothing
-- more, or for what did not succeed. Of all others something ends later than this.
CREATE FUNCTION jobs_after_ends(ids bigint[])
RETURNS TABLE (id bigint, queue text, due_at timestamptz, is_later boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH edge AS MATERIALIZED (
        SELECT one.job_id, one.condition, given.id AS after_id
        FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
            SELECT edge.job_id, edge.condition FROM jobs_edge AS edge WHERE edge.after_id = given.id OFFSET 0) AS one
    ), later AS MATERIALIZED (
        SELECT one.job_id, EXISTS (SELECT FROM jobs_edge AS open WHERE open.open_of = one.job_id OFFSET 0) AS is_open
        FROM (SELECT DISTINCT job_id FROM edge) AS one
    )
    SELECT edge.after_id AS id, NULL, NULL::timestamptz, NULL::boolean
    FROM edge JOIN later ON later.job_id = edge.job_id
    WHERE CASE WHEN later.is_open AND (edge.condition <> 'success' OR (
                   SELECT outcome.status FROM jobs_outcome AS outcome WHERE outcome.job_id = edge.after_id) = 'success')
               THEN false
               ELSE EXISTS (SELECT FROM jobs_endedstep AS note WHERE note.job_id = edge.after_id OFFSET 0) END
    GROUP BY edge.after_id
    UNION ALL
    SELECT live.job_id, live.queue::text, live.run_at, live.run_at > statement_timestamp()
    FROM later CROSS JOIN LATERAL (
        SELECT one.job_id, one.queue, one.run_at, one.lease_secret FROM jobs_live AS one WHERE one.job_id = later.job_id OFFSET 0
    ) AS live
    WHERE NOT later.is_open AND live.lease_secret IS NULL AND live.run_at < '9000-01-01 00:00:00+00';
END $$;

-- What these claimed jobs come after, with their results as far as all of them have `most` bytes together; what is longer,
-- and whatever stands behind it, comes without.
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

-- Reverse
DROP FUNCTION jobs_came_after(bigint[], bigint);
DROP FUNCTION jobs_after_ends(bigint[]);
DROP FUNCTION jobs_let_go(bigint[]);
