-- Free the slots of those of these jobs that run no more; the queues that have room now. It goes to the server together
-- with the statement that ends them (docs/adr/0087), before anybody knows which of them that has ended: one whose lease
-- was lost may run with another worker, and keeps its slot. In the order of their ids (docs/adr/0044): whoever moves a
-- ceiling locks all slots of a queue in that order.
WITH held AS MATERIALIZED (
    SELECT slot.id FROM jobs_slot AS slot
    WHERE slot.job_id = ANY (%(job)s::bigint[])
      AND NOT EXISTS (SELECT FROM jobs_job AS job WHERE job.id = slot.job_id AND job.lease_secret IS NOT NULL)
    ORDER BY slot.id FOR UPDATE OF slot
)
UPDATE jobs_slot SET job_id = NULL FROM held WHERE jobs_slot.id = held.id RETURNING jobs_slot.queue_id
