-- Free the slots of jobs that ended; the queues that have room now. In the order of their ids (docs/adr/0044): whoever
-- moves a ceiling locks all slots of a queue in that order.
WITH held AS MATERIALIZED (
    SELECT id FROM jobs_slot WHERE job_id = ANY (%(job)s::bigint[]) ORDER BY id FOR UPDATE
)
UPDATE jobs_slot SET job_id = NULL FROM held WHERE jobs_slot.id = held.id RETURNING jobs_slot.queue_id
