-- Jobs whose rows say what cannot be, for the doctor: what no CHECK asks in each statement (docs/adr/0037). Reads the
-- whole table.
SELECT job.id, fault.what
FROM jobs_job AS job
LEFT JOIN jobs_body AS body ON body.job_id = job.id
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN body.job_id IS NULL THEN 'has no payload'
        WHEN NOT coalesce(job.progress BETWEEN 0 AND 1, true) THEN 'has a progress that is no share from 0 to 1'
        WHEN job.max_attempts < 1 OR NOT job.failures BETWEEN 0 AND job.max_attempts
            THEN 'has failed more often than it may be tried'
        WHEN (job.limit_name IS NULL) <> (job.limit_count IS NULL) OR job.limit_count <= 0
            OR job.limit_name IS NULL AND (job.limit_key IS NOT NULL OR job.limit_until IS NOT NULL)
            THEN 'does not say how much it took of its limit'
        WHEN job.status = 'pending' AND NOT EXISTS (
            SELECT FROM jobs_mark AS mark WHERE mark.lane_id = job.lane_id AND mark.at <= job.run_at)
            THEN 'waits where no claim looks'
        END AS what) AS fault
WHERE fault.what IS NOT NULL
ORDER BY job.id LIMIT %(limit)s::bigint
