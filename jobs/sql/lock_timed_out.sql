-- Lock jobs that are suspended for no longer than until now, except these ids, and those that somebody else has locked: the
-- limit counts what is locked here, or one open transaction with so many of them would hold up everybody's. What has ended
-- meanwhile waits for nothing: its moment is forgotten. `waits`: it is suspended still.
WITH over AS (
    UPDATE jobs_suspension SET until = NULL
    WHERE until <= statement_timestamp() AND NOT EXISTS (
        SELECT FROM jobs_live AS live WHERE live.job_id = jobs_suspension.job_id)
)
SELECT live.job_id AS id, live.kind, live.queue, live.lease_secret IS NULL AND live.run_at = %(behind)s::timestamptz AS waits
FROM (SELECT job_id FROM jobs_suspension
      WHERE until <= statement_timestamp() AND job_id <> ALL (%(but_for)s::bigint[])
      ORDER BY until OFFSET 0) AS due
CROSS JOIN LATERAL (
    SELECT one.job_id, one.kind, one.queue, one.lease_secret, one.run_at FROM jobs_live AS one WHERE one.job_id = due.job_id
    FOR UPDATE SKIP LOCKED) AS live
LIMIT %(limit)s::bigint
