-- Note the uses of uploads by jobs that this transaction inserted, and on each job's record what its claim says of
-- them: the claim reads that row anyway, and jobs without input files cost it nothing.
WITH used AS (
    INSERT INTO jobs_input (job_id, name, upload_id)
    SELECT * FROM unnest(%(job)s::bigint[], %(name)s::text[], %(upload)s::uuid[])
)
UPDATE jobs_job SET inputs = described.inputs::jsonb
FROM unnest(%(described_job)s::bigint[], %(described)s::text[]) AS described (job_id, inputs)
WHERE jobs_job.id = described.job_id
