-- The concurrency key of a job that a claim has just locked, at its place. Asked as a value, of several fair queues alone: as a
-- join it cost every claim of one job 3 %. Migration 0034 runs this file.
CREATE FUNCTION jobs_key_at(place tid) RETURNS integer LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT one.key_id FROM jobs_live AS one WHERE one.ctid = place);
END $$;

-- Reverse
DROP FUNCTION jobs_key_at(tid);
