-- Free the slots of jobs that ended; the queues that have room now.
UPDATE jobs_slot SET job_id = NULL WHERE job_id = ANY (%(job)s::bigint[]) RETURNING queue_id
