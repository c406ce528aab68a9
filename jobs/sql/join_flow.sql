-- Let these jobs, whose locks the caller holds, be part of a flow: those of none, and all of the flows that are joined.
WITH live AS (
    UPDATE jobs_live SET in_flow = true
    WHERE ctid = ANY (ARRAY(
        SELECT one.tid FROM unnest(%(ids)s::bigint[]) AS given (id) CROSS JOIN LATERAL (
            SELECT live.ctid AS tid FROM jobs_live AS live WHERE live.job_id = given.id AND NOT live.in_flow OFFSET 0) AS one))
), step AS (
    INSERT INTO jobs_step (job_id, name, place_id, depth)
    SELECT given.id, '', given.id, 0 FROM unnest(%(ids)s::bigint[]) AS given (id) ON CONFLICT (job_id) DO NOTHING
), gone AS (
    DELETE FROM jobs_flow WHERE id = ANY (%(others)s::bigint[])
)
UPDATE jobs_job SET flow_id = %(flow)s::bigint
WHERE id = ANY (ARRAY(
    SELECT given.id FROM unnest(%(ids)s::bigint[]) AS given (id)
    UNION SELECT one.id FROM unnest(%(others)s::bigint[]) AS other (id) CROSS JOIN LATERAL (
        SELECT job.id FROM jobs_job AS job WHERE job.flow_id = other.id OFFSET 0) AS one))
