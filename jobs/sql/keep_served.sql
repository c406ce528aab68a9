-- What waits for a later moment in a fair queue was served as much as who is next by now: nobody saves up until it comes.
UPDATE jobs_mark AS mark SET served = later.served
FROM (SELECT one.id, next.served
      FROM (SELECT queue.name, jobs_served_of(queue.name, NULL) AS served FROM jobs_queue AS queue
            WHERE queue.fair <> 'off' OFFSET 0) AS next
      JOIN jobs_mark AS one ON one.queue = next.name AND one.share <> 0
      WHERE one.at > statement_timestamp() AND one.served < next.served
      FOR UPDATE OF one SKIP LOCKED) AS later
WHERE mark.id = later.id
