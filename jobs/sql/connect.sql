-- The places of new jobs in their flow, and what they come after. The caller holds the locks of those that live: what has
-- ended by now was committed before, and is looked at once this is (released.sql): of each job one of those, which did not
-- succeed if there is such.
WITH step AS (
    INSERT INTO jobs_step (job_id, name, place_id, depth, due_at, expires_s)
    SELECT job_id, name, place_id, depth, due_at, expires_s
    FROM unnest(%(job)s::bigint[], %(name)s::text[], %(place)s::bigint[], %(depth)s::smallint[], %(due_at)s::timestamptz[],
                %(expires_s)s::float8[]) AS given (job_id, name, place_id, depth, due_at, expires_s)
), given AS MATERIALIZED (
    SELECT edge.*, EXISTS (SELECT FROM jobs_live AS live WHERE live.job_id = edge.after_id) AS is_open,
           edge.condition = 'success' AND (
               SELECT outcome.status FROM jobs_outcome AS outcome WHERE outcome.job_id = edge.after_id) <> 'success' AS is_unhappy
    FROM unnest(%(later)s::bigint[], %(after)s::bigint[], %(condition)s::text[]) AS edge (job_id, after_id, condition)
), edge AS (
    INSERT INTO jobs_edge (job_id, after_id, condition, open_of)
    SELECT job_id, after_id, condition, CASE WHEN is_open THEN job_id END FROM given
)
INSERT INTO jobs_endedstep (job_id)
SELECT DISTINCT coalesce(min(after_id) FILTER (WHERE is_unhappy), min(after_id)) FROM given WHERE NOT is_open GROUP BY job_id
RETURNING job_id
