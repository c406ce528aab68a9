-- Free slots whose job does not run any more. One that somebody else has locked is his to settle.
WITH empty AS MATERIALIZED (
    SELECT slot.id FROM jobs_slot AS slot
    WHERE slot.job_id IS NOT NULL
      AND NOT EXISTS (SELECT FROM jobs_job AS job WHERE job.id = slot.job_id AND job.status = 'in_progress')
    ORDER BY slot.id FOR UPDATE OF slot SKIP LOCKED
)
UPDATE jobs_slot SET job_id = NULL FROM empty WHERE jobs_slot.id = empty.id RETURNING jobs_slot.queue_id
