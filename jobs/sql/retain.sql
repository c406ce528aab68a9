-- Delete ended jobs older than the given age, oldest first, with all that belongs to them. Returns their files' names
-- in the storage. A job that has not ended is out of reach of the index, and of the trigger that guards the table.
WITH old AS MATERIALIZED (
    SELECT id FROM jobs_job
    WHERE ended_at < statement_timestamp() - make_interval(secs => %(age_s)s::float8)
    ORDER BY ended_at, id LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED
), output AS (DELETE FROM jobs_outputchunk USING old WHERE job_id = old.id
), attempts AS (DELETE FROM jobs_attempt USING old WHERE job_id = old.id
), bodies AS (DELETE FROM jobs_body USING old WHERE job_id = old.id
), shares AS (DELETE FROM jobs_share USING old WHERE job_id = old.id
), files AS (DELETE FROM jobs_resultfile USING old WHERE job_id = old.id RETURNING job_id, stored_as
), gone AS (DELETE FROM jobs_job USING old WHERE jobs_job.id = old.id RETURNING jobs_job.id)
SELECT gone.id, array_remove(array_agg(files.stored_as), NULL) AS files
FROM gone LEFT JOIN files ON files.job_id = gone.id GROUP BY gone.id
