-- Delete readings of jobs that are deleted.
DELETE FROM metering_reading AS reading
WHERE NOT EXISTS (SELECT FROM jobs_job AS job WHERE job.id = reading.job_id)
