-- Jobs that have ended, or are gone, and for which something is reserved still: the meter failed when they ended.
SELECT DISTINCT reservation.job_id FROM metering_reservation AS reservation
WHERE NOT EXISTS (SELECT FROM jobs_live AS live WHERE live.job_id = reservation.job_id)
ORDER BY 1 LIMIT %(limit)s::bigint OFFSET %(skip)s::bigint
