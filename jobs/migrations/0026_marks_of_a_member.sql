-- A claim of a worker that is nobody's plans nothing for members' workers: 3 % of a claim of one job. Migration 0026 runs this
-- file.

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

-- Reverse
DROP FUNCTION jobs_marks_of(text, integer, integer[]);
