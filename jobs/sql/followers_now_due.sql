-- The living jobs that have the unique_keys of these ended ones: those that waited behind them, or came since.
SELECT DISTINCT live.job_id AS id, live.queue, live.run_at, live.run_at > statement_timestamp() AS is_later
FROM unnest(%(ids)s::bigint[]) AS ended (job_id)
CROSS JOIN LATERAL (
    SELECT job.kind, job.unique_key, job.owner_id FROM jobs_job AS job WHERE job.id = ended.job_id OFFSET 0) AS job
CROSS JOIN LATERAL (
    SELECT each.job_id FROM jobs_uniquekey AS each
    WHERE (each.kind, each.unique_key, each.owner_id) = (job.kind, job.unique_key, job.owner_id)
    UNION ALL
    SELECT each.job_id FROM jobs_uniquekey AS each
    WHERE (each.kind, each.unique_key) = (job.kind, job.unique_key) AND job.owner_id IS NULL AND each.owner_id IS NULL
) AS living
CROSS JOIN LATERAL (
    SELECT one.* FROM jobs_live AS one WHERE one.job_id = living.job_id OFFSET 0) AS live
WHERE live.lease_expires_at IS NULL
