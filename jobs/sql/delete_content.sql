-- Delete what these ended jobs were given and gave (docs/adr/0140): payload, result, output, errors, and what they reported
-- and kept meanwhile. Those of a flow that lives are only named: later steps get their results (`waits`). Returns the names of
-- their files in the storage, and which uploads they used. What they wrote is taken off their owner's usage here, their
-- files by a trigger. The guards of records and outcomes let this pass for jobs with a row of jobs_contentdeletion.
WITH noted AS MATERIALIZED (
    SELECT job.id, job.owner_id, outcome.output_bytes + outcome.earlier_output_bytes AS bytes,
           job.flow_id IS NOT NULL AND jobs_flow_lives(job.flow_id) AS waits
    FROM jobs_contentdeletion AS deletion JOIN jobs_job AS job ON job.id = deletion.job_id
    JOIN jobs_outcome AS outcome ON outcome.job_id = job.id
    WHERE deletion.job_id = ANY (%(ids)s::bigint[]) AND deletion.deleted_at IS NULL
    ORDER BY job.id FOR UPDATE OF job
), due AS MATERIALIZED (SELECT * FROM noted WHERE NOT waits
), deletion AS (
    UPDATE jobs_contentdeletion SET deleted_at = statement_timestamp() WHERE job_id = ANY (ARRAY(SELECT id FROM due))
), record AS (UPDATE jobs_job SET payload = 'null', inputs = NULL WHERE id = ANY (ARRAY(SELECT id FROM due))
), outcome AS (
    UPDATE jobs_outcome SET result = NULL, detail = NULL, next_seq = 0, output_bytes = 0, earlier_output_bytes = 0
    WHERE job_id = ANY (ARRAY(SELECT id FROM due))
), freed AS (
    INSERT INTO jobs_usagedelta (owner_id, output_bytes) SELECT owner_id, -bytes FROM due WHERE bytes > 0
), output AS (DELETE FROM jobs_outputchunk WHERE job_id = ANY (ARRAY(SELECT id FROM due))
), attempts AS (UPDATE jobs_attempt SET error = '' WHERE job_id = ANY (ARRAY(SELECT id FROM due)) AND error <> ''
), stages AS (DELETE FROM jobs_stage WHERE job_id = ANY (ARRAY(SELECT id FROM due))
), checkpoints AS (DELETE FROM jobs_checkpoint WHERE job_id = ANY (ARRAY(SELECT id FROM due))
), suspensions AS (DELETE FROM jobs_suspension WHERE job_id = ANY (ARRAY(SELECT id FROM due))
), signals AS (DELETE FROM jobs_signal WHERE job_id = ANY (ARRAY(SELECT id FROM due))
), inputs AS (DELETE FROM jobs_input WHERE job_id = ANY (ARRAY(SELECT id FROM due)) RETURNING job_id, upload_id
), files AS (DELETE FROM jobs_resultfile WHERE job_id = ANY (ARRAY(SELECT id FROM due)) RETURNING job_id, stored_as
)
SELECT noted.id, noted.waits, ARRAY(SELECT stored_as FROM files WHERE files.job_id = noted.id) AS files,
       ARRAY(SELECT upload_id FROM inputs WHERE inputs.job_id = noted.id) AS uploads
FROM noted
