-- Delete readings of jobs that are deleted, among the next `limit` of all. The last of these, if there are any.
WITH next AS MATERIALIZED (
    SELECT job_id, fence FROM metering_reading WHERE (job_id, fence) > (%(job_id)s::bigint, %(fence)s::bigint)
    ORDER BY job_id, fence LIMIT %(limit)s::bigint
), deleted AS (
    DELETE FROM metering_reading AS reading USING next
    WHERE (reading.job_id, reading.fence) = (next.job_id, next.fence)
      AND NOT EXISTS (SELECT FROM jobs_job AS job WHERE job.id = next.job_id)
)
SELECT job_id, fence FROM next ORDER BY job_id DESC, fence DESC LIMIT 1
