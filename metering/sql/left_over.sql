-- Jobs that have ended, or are gone, and for which something is reserved still: the meter failed when they ended.
SELECT DISTINCT reservation.job_id FROM metering_reservation AS reservation
LEFT JOIN jobs_job AS job ON job.id = reservation.job_id
WHERE job.id IS NULL OR job.ended_at IS NOT NULL
ORDER BY 1 LIMIT %(limit)s::bigint OFFSET %(skip)s::bigint
