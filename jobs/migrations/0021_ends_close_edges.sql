-- Who ends jobs closes their edges together, and is told what may start (docs/adr/0127). Migration 0021 runs this file.

DROP TRIGGER a_flow_goes_on_after_its_job ON jobs_live;
DROP FUNCTION jobs_close_edges();
DROP FUNCTION jobs_after_ends(bigint[]);

-- These jobs of flows ended in this transaction: their edges are closed by it alone, no end waits for another. What comes
-- after them and waits for nothing more, as far as this transaction sees, is let go at once, in a row with its `queue`. Of two
-- ends at the same moment neither sees the other: then, and for all that cannot be let go here, notes stay for who looks once
-- that is committed (sql/released.sql): of each that did not succeed, and else one for each that waits. Whose they are is in
-- rows without a `queue`.
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

-- Reverse
DROP FUNCTION jobs_after_ends(bigint[]);
DROP FUNCTION jobs_close_edges(bigint[]);
