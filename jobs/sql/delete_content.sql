-- Delete what these ended jobs were given and gave (docs/adr/0140), which the caller has locked: payload, result, output, errors,
-- and what they reported and kept meanwhile; of those that are redacted only the latter. Returns the names of their files in
-- the storage, and which uploads they used. What they wrote is taken off their owner's usage here, their files by a trigger.
-- The guards of records and outcomes let this pass for jobs with a row of jobs_contentdeletion.
WITH due AS MATERIALIZED (
    SELECT job.id, job.owner_id, outcome.output_bytes + outcome.earlier_output_bytes AS bytes, deletion.patterns = '' AS is_bare
    FROM jobs_contentdeletion AS deletion JOIN jobs_job AS job ON job.id = deletion.job_id
    JOIN jobs_outcome AS outcome ON outcome.job_id = job.id
    WHERE deletion.job_id = ANY (%(ids)s::bigint[])
), deletion AS (
    UPDATE jobs_contentdeletion SET deleted_at = statement_timestamp() WHERE job_id = ANY (ARRAY(SELECT id FROM due))
), record AS (UPDATE jobs_job SET payload = 'null', inputs = NULL WHERE id = ANY (ARRAY(SELECT id FROM due WHERE is_bare))
), outcome AS (
    UPDATE jobs_outcome SET result = NULL, detail = NULL, next_seq = 0, output_bytes = 0, earlier_output_bytes = 0
    WHERE job_id = ANY (ARRAY(SELECT id FROM due WHERE is_bare))
), freed AS (
    INSERT INTO jobs_usagedelta (owner_id, output_bytes) SELECT owner_id, -bytes FROM due WHERE is_bare AND bytes > 0
), output AS (DELETE FROM jobs_outputchunk WHERE job_id = ANY (ARRAY(SELECT id FROM due WHERE is_bare))
), attempts AS (UPDATE jobs_attempt SET error = '' WHERE job_id = ANY (ARRAY(SELECT id FROM due WHERE is_bare)) AND error <> ''
), stages AS (DELETE FROM jobs_stage WHERE job_id = ANY (ARRAY(SELECT id FROM due))
), checkpoints AS (DELETE FROM jobs_checkpoint WHERE job_id = ANY (ARRAY(SELECT id FROM due))
), suspensions AS (DELETE FROM jobs_suspension WHERE job_id = ANY (ARRAY(SELECT id FROM due))
), signals AS (DELETE FROM jobs_signal WHERE job_id = ANY (ARRAY(SELECT id FROM due))
), inputs AS (DELETE FROM jobs_input WHERE job_id = ANY (ARRAY(SELECT id FROM due)) RETURNING job_id, upload_id
), files AS (DELETE FROM jobs_resultfile WHERE job_id = ANY (ARRAY(SELECT id FROM due)) RETURNING job_id, stored_as
)
SELECT due.id, ARRAY(SELECT stored_as FROM files WHERE files.job_id = due.id) AS files,
       ARRAY(SELECT upload_id FROM inputs WHERE inputs.job_id = due.id) AS uploads
FROM due
