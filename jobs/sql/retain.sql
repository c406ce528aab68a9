-- Delete ended jobs older than the given age, oldest first, with all that belongs to them. Returns their files' names in the
-- storage. They are put in order before they are locked: sorted afterwards, all that are old enough would be locked. The ids go
-- on as arrays: joined, the unknown limit lets the planner read whole tables. A record's outcome goes with it by a trigger. A flow
-- is kept until its last job has ended. Files are taken off their owner's usage here: their trigger finds the jobs gone.
WITH old AS MATERIALIZED (
    SELECT outcome.job_id AS id, record.owner_id, record.tags, record.flow_id FROM (
        SELECT job_id FROM jobs_outcome WHERE ended_at < statement_timestamp() - make_interval(secs => %(age_s)s::float8)
        ORDER BY ended_at, job_id OFFSET 0) AS outcome CROSS JOIN LATERAL (
        SELECT job.owner_id, job.tags, job.flow_id FROM jobs_job AS job
        WHERE job.id = outcome.job_id AND (job.flow_id IS NULL OR NOT jobs_flow_lives(job.flow_id)) FOR UPDATE SKIP LOCKED) AS record
    LIMIT %(limit)s::bigint OFFSET %(skip)s::bigint
), output AS (DELETE FROM jobs_outputchunk WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), attempts AS (DELETE FROM jobs_attempt WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), shares AS (DELETE FROM jobs_share WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), stages AS (DELETE FROM jobs_stage WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), checkpoints AS (DELETE FROM jobs_checkpoint WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), deletions AS (DELETE FROM jobs_contentdeletion WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), origins AS (DELETE FROM jobs_origin WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), offspring AS (DELETE FROM jobs_offspring WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), tags AS (
    DELETE FROM jobs_tag WHERE ctid = ANY (ARRAY(
        SELECT named.ctid FROM old CROSS JOIN LATERAL unnest(old.tags) AS each (tag) CROSS JOIN LATERAL (
            SELECT tag.ctid FROM jobs_tag AS tag WHERE tag.tag = each.tag AND tag.job_id = old.id OFFSET 0) AS named))
), steps AS (DELETE FROM jobs_step WHERE job_id = ANY (ARRAY(SELECT id FROM old WHERE flow_id IS NOT NULL))
), edges AS (DELETE FROM jobs_edge WHERE job_id = ANY (ARRAY(SELECT id FROM old WHERE flow_id IS NOT NULL))
), flows AS (
    DELETE FROM jobs_flow WHERE id = ANY (ARRAY(SELECT DISTINCT flow_id FROM old WHERE flow_id IS NOT NULL))
      AND NOT EXISTS (SELECT FROM jobs_job AS job WHERE job.flow_id = jobs_flow.id AND job.id <> ALL (ARRAY(SELECT id FROM old)))
), suspensions AS (DELETE FROM jobs_suspension WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), signals AS (DELETE FROM jobs_signal WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), inputs AS (DELETE FROM jobs_input WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), files AS (DELETE FROM jobs_resultfile WHERE job_id = ANY (ARRAY(SELECT id FROM old)) RETURNING job_id, stored_as, size
), freed AS (
    INSERT INTO jobs_usagedelta (owner_id, files, file_bytes)
    SELECT old.owner_id, -count(*), -sum(files.size) FROM files JOIN old ON old.id = files.job_id GROUP BY old.owner_id
), gone AS (DELETE FROM jobs_job WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING jobs_job.id)
SELECT gone.id, array_remove(array_agg(files.stored_as), NULL) AS files
FROM gone LEFT JOIN files ON files.job_id = gone.id GROUP BY gone.id
