-- Lock the ended jobs among these whose content is to be deleted or redacted and was not yet. Those of a flow that lives wait:
-- later steps get their results.
SELECT job.id, deletion.patterns, job.flow_id IS NOT NULL AND jobs_flow_lives(job.flow_id) AS waits,
       extract(epoch FROM statement_timestamp() - outcome.ended_at)::float8 AS ended_ago_s
FROM jobs_contentdeletion AS deletion JOIN jobs_job AS job ON job.id = deletion.job_id
JOIN jobs_outcome AS outcome ON outcome.job_id = job.id
WHERE deletion.job_id = ANY (%(ids)s::bigint[]) AND deletion.deleted_at IS NULL
ORDER BY job.id FOR UPDATE OF job
