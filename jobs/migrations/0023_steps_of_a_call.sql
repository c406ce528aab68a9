-- What a call asks of flows it asks once for all its jobs (docs/adr/0127). The functions that these replace stay for the version
-- before, until that is restarted. Migration 0023 runs this file.

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

-- These jobs of flows ended in this transaction: their edges are closed by it alone, no end waits for another. What comes
-- after them and waits for nothing more, as far as this transaction sees, is let go at once, in a row with its `queue`. Of two
-- ends at the same moment neither sees the other: then, and for all that cannot be let go here, notes stay for who looks once
-- that is committed (sql/released.sql): of each that did not succeed, and else one for each that waits. Whose they are is in
-- rows without a `queue`. `succeeded`: all of them did; where the caller does not know, each is looked up.
CREATE FUNCTION jobs_close_edges(ids bigint[], succeeded boolean)
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
        SELECT DISTINCT CASE WHEN edge.is_fine THEN min(edge.before) FILTER (WHERE edge.is_fine) OVER (PARTITION BY edge.later)
                             ELSE edge.before END
        FROM (
            SELECT each.later, each.before, succeeded OR (
                SELECT one.status FROM jobs_outcome AS one WHERE one.job_id = each.before OFFSET 0) = 'success' AS is_fine
            FROM unnest(later, before) AS each (later, before) WHERE each.later <> ALL (gone)) AS edge
        RETURNING job_id, NULL, NULL::timestamptz, NULL::boolean;
END $$;

-- Reverse
DROP FUNCTION jobs_close_edges(bigint[], boolean);
DROP FUNCTION jobs_came_after(bigint[], bigint, bigint);
