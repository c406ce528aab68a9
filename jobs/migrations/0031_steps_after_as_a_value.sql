-- What jobs_close_edges lets go after successes, as one value: an end that is in no flow does not pay for a scan of it.
-- Migration 0031 runs this file.
CREATE FUNCTION jobs_steps_after(ids bigint[]) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT json_agg(step) FROM jobs_close_edges(ids, true) AS step);
END $$;

-- Reverse
DROP FUNCTION jobs_steps_after(bigint[]);
