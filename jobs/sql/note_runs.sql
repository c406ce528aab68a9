-- Let running jobs that count in their queue have begun so many seconds ago, if that is later than their claim: before they lay
-- ready at their worker, for which nobody is charged (docs/adr/0121). By one heartbeat interval at most: so long is a lease
-- good that no call has named. Locked in the order of their ids, and waited for, as by the statements that end them.
WITH held AS MATERIALIZED (
    SELECT live.tid
    FROM (SELECT * FROM unnest(%(job)s::bigint[], %(fence)s::bigint[], %(secret)s::uuid[]) AS each (job_id, fence, secret)
          WHERE (SELECT set_config('lock_timeout', %(wait)s::text, true)) <> '' ORDER BY job_id) AS lease
    CROSS JOIN LATERAL (
        SELECT one.ctid AS tid, one.fence, one.lease_secret, one.worker_id, one.counted_in
        FROM jobs_live AS one WHERE one.job_id = lease.job_id FOR UPDATE) AS live
    WHERE live.fence = lease.fence AND live.lease_secret = lease.secret AND live.worker_id = %(worker)s::bigint
      AND live.counted_in IS NOT NULL
)
UPDATE jobs_live AS live
SET claimed_at = least(
        greatest(live.claimed_at, statement_timestamp() - make_interval(
            secs => (%(ran_s)s::float8[])[array_position(%(job)s::bigint[], live.job_id)])),
        live.claimed_at + make_interval(secs => %(confirm_s)s::float8))
WHERE live.ctid = ANY (ARRAY(SELECT tid FROM held))
