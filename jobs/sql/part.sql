-- Move locked jobs that wait to the lanes of what their rows say now.
UPDATE jobs_job AS job
SET lane_id = jobs_enter(job.queue, job.priority, job.owner_id, job.group_id, job.requirement_id, coalesce(
        (SELECT lane.avoid FROM jobs_lane AS lane WHERE lane.id = job.lane_id), '{}'), job.run_at)
WHERE job.id = ANY (%(ids)s::bigint[]) AND job.ended_at IS NULL AND job.lease_secret IS NULL
