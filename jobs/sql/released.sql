-- Take the notes of these jobs, which ended in flows, but for those that somebody else takes at this moment; and of the jobs
-- that come after them those that wait for nothing more, locked in the order of their ids: they may start; or, since one did
-- not succeed (`failed_id`, who was not itself canceled for another, unless with its parent), never. A note and the edges that its job closed were committed at once: whichever
-- of two ends was committed last, who takes its note finds nothing open.
-- What is still open of a job is found by `open_of` alone, at the first entry, however many edges it has. Of one without open
-- edges all are read, once: whose failure somebody else has not come to look after counts as well. A job that went on long
-- ago may be suspended by now, for a signal: no end is what it waits for.
WITH taken AS (
    DELETE FROM jobs_endedstep
    WHERE id = ANY (ARRAY(
        SELECT note.id FROM unnest(%(ids)s::bigint[]) AS given (id) CROSS JOIN LATERAL (
            SELECT one.id FROM jobs_endedstep AS one WHERE one.job_id = given.id FOR UPDATE SKIP LOCKED) AS note))
    RETURNING job_id
), ended AS MATERIALIZED (
    SELECT DISTINCT taken.job_id AS id,
           (SELECT outcome.status FROM jobs_outcome AS outcome WHERE outcome.job_id = taken.job_id) <> 'success' AS is_unhappy,
           coalesce((SELECT nullif(step.canceled_for_id, step.parent_id) FROM jobs_step AS step
                     WHERE step.job_id = taken.job_id), taken.job_id) AS because_id
    FROM taken
), later AS MATERIALIZED (
    SELECT edge.job_id, min(ended.because_id) FILTER (WHERE edge.condition = 'success' AND ended.is_unhappy) AS failed_id
    FROM ended CROSS JOIN LATERAL (
        SELECT one.job_id, one.condition FROM jobs_edge AS one WHERE one.after_id = ended.id OFFSET 0) AS edge
    GROUP BY edge.job_id
), settled AS MATERIALIZED (
    SELECT later.job_id, coalesce(later.failed_id, (
               SELECT min(coalesce(nullif(step.canceled_for_id, step.parent_id), edge.after_id))
               FROM jobs_edge AS edge CROSS JOIN LATERAL (
                   SELECT one.status FROM jobs_outcome AS one WHERE one.job_id = edge.after_id OFFSET 0) AS outcome
               LEFT JOIN LATERAL (
                   SELECT one.canceled_for_id, one.parent_id FROM jobs_step AS one WHERE one.job_id = edge.after_id OFFSET 0) AS step ON true
               WHERE edge.job_id = later.job_id AND edge.condition = 'success' AND outcome.status <> 'success')) AS failed_id
    FROM later
    WHERE failed_id IS NOT NULL OR NOT EXISTS (SELECT FROM jobs_edge AS open WHERE open.open_of = later.job_id)
    ORDER BY job_id
)
SELECT live.job_id AS id, settled.failed_id
FROM settled CROSS JOIN LATERAL (
    SELECT one.job_id, one.lease_secret, one.run_at FROM jobs_live AS one WHERE one.job_id = settled.job_id
    FOR UPDATE) AS live
WHERE live.lease_secret IS NULL AND live.run_at = %(behind)s::timestamptz AND NOT EXISTS (
    SELECT FROM jobs_suspension AS wait
    WHERE wait.job_id = live.job_id AND wait.signal <> '' AND wait.taken_id IS NULL AND NOT wait.timed_out)
