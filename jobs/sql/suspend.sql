-- Let a job wait for others, which are to be its own: it submitted them, or who had its place before did. The caller holds the
-- locks of the job, and of those of the others that live: what has ended by now was committed before. Its edges are like those
-- that a submit writes (connect.sql), so that the last end lets it go on; where all have ended it is looked at once this is
-- committed: `ended` is one of them. `is_own`: whether all are its own; if not, nothing is written.
WITH child AS MATERIALIZED (
    SELECT given.id, EXISTS (SELECT FROM jobs_live AS live WHERE live.job_id = given.id) AS is_open, EXISTS (
               SELECT FROM jobs_step AS step JOIN jobs_step AS parent ON parent.job_id = step.parent_id
               JOIN jobs_step AS mine ON mine.place_id = parent.place_id
               WHERE step.job_id = given.id AND mine.job_id = %(job)s::bigint) AS is_own
    FROM unnest(%(children)s::bigint[]) AS given (id)
), rollup AS MATERIALIZED (
    SELECT bool_and(is_own) AS is_own, CASE WHEN NOT bool_or(is_open) THEN min(id) END AS ended FROM child
), step AS (
    UPDATE jobs_step SET due_at = NULL, expires_s = NULL WHERE job_id = %(job)s::bigint  -- they were about its first start
), edge AS (
    INSERT INTO jobs_edge (job_id, after_id, condition, open_of)
    SELECT %(job)s::bigint, child.id, 'waited', CASE WHEN child.is_open THEN %(job)s::bigint END
    FROM child CROSS JOIN rollup WHERE rollup.is_own
    ON CONFLICT (job_id, after_id) DO UPDATE SET open_of = excluded.open_of
), note AS (
    INSERT INTO jobs_endedstep (job_id) SELECT ended FROM rollup WHERE is_own AND ended IS NOT NULL
)
SELECT is_own, ended FROM rollup
