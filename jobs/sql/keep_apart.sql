-- The net below the triggers that let a queue keep owners apart: a worker and a queue that came at the same moment did not
-- see each other, and a key that is good again asks for none of them.
UPDATE jobs_queue AS queue SET by_owner = true
WHERE NOT queue.by_owner AND EXISTS (
    SELECT FROM jobs_worker AS worker
    WHERE worker.owner_id IS NOT NULL AND worker.revoked_at IS NULL
      AND ARRAY[queue.name, '*']::varchar[] && (worker.queues || worker.steals))
