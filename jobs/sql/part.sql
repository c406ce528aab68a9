-- Move locked jobs that wait to the lanes of what their rows say now, and of how long they have waited.
UPDATE jobs_live AS job
SET lane_id = jobs_enter(job.queue, record.priority, job.owner_id, job.group_id, job.requirement_id, coalesce(
        (SELECT lane.avoid FROM jobs_lane AS lane WHERE lane.id = job.lane_id), '{}'), job.run_at, job.key_id,
        coalesce(jobs_raise(job.queue, record.priority, greatest(job.run_at, record.created_at)), 0))
FROM jobs_job AS record
WHERE job.job_id = ANY (%(ids)s::bigint[]) AND job.lease_secret IS NULL AND record.id = job.job_id
