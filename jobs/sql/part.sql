-- Move locked jobs that wait to the lanes of what their rows say now.
UPDATE jobs_live AS job
SET lane_id = jobs_enter(job.queue, record.priority, job.owner_id, job.group_id, job.requirement_id, coalesce(
        (SELECT lane.avoid FROM jobs_lane AS lane WHERE lane.id = job.lane_id), '{}'), job.run_at)
FROM jobs_job AS record
WHERE job.job_id = ANY (%(ids)s::bigint[]) AND job.lease_secret IS NULL AND record.id = job.job_id
