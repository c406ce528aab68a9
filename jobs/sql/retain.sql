-- Delete ended jobs older than the given age, oldest first, with all that belongs to them. Returns their files' names
-- in the storage. The ids go on as arrays: joined, the unknown limit lets the planner expect a tenth of all jobs and
-- read whole tables. A record's outcome goes with it by a trigger, which refuses where the job has not ended.
-- Files are taken off their owner's usage here: when their trigger asks whose they were, the jobs are gone.
-- Of their input files only the use goes here: the uploads that nobody uses any more follow (lock_unused_uploads.sql).
WITH old AS MATERIALIZED (
    SELECT outcome.job_id AS id, record.owner_id FROM jobs_outcome AS outcome CROSS JOIN LATERAL (
        SELECT job.owner_id FROM jobs_job AS job WHERE job.id = outcome.job_id FOR UPDATE SKIP LOCKED) AS record
    WHERE outcome.ended_at < statement_timestamp() - make_interval(secs => %(age_s)s::float8)
    ORDER BY outcome.ended_at, outcome.job_id LIMIT %(limit)s::bigint OFFSET %(skip)s::bigint
), output AS (DELETE FROM jobs_outputchunk WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), attempts AS (DELETE FROM jobs_attempt WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), shares AS (DELETE FROM jobs_share WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), stages AS (DELETE FROM jobs_stage WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), origins AS (DELETE FROM jobs_origin WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), offspring AS (DELETE FROM jobs_offspring WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), inputs AS (DELETE FROM jobs_input WHERE job_id = ANY (ARRAY(SELECT id FROM old))
), files AS (DELETE FROM jobs_resultfile WHERE job_id = ANY (ARRAY(SELECT id FROM old)) RETURNING job_id, stored_as, size
), freed AS (
    INSERT INTO jobs_usagedelta (owner_id, files, file_bytes)
    SELECT old.owner_id, -count(*), -sum(files.size) FROM files JOIN old ON old.id = files.job_id GROUP BY old.owner_id
), gone AS (DELETE FROM jobs_job WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING jobs_job.id)
SELECT gone.id, array_remove(array_agg(files.stored_as), NULL) AS files
FROM gone LEFT JOIN files ON files.job_id = gone.id GROUP BY gone.id
