-- Add up what ended runs of fair queues have left, where no claim does: workers of members look at no shares. It is alone with
-- each queue, as jobs_open has it, or leaves it to whoever takes from it at this moment.
SELECT queue.name, jobs_fold_charges(queue.name, queue.fair)
FROM (SELECT one.name, one.fair FROM jobs_queue AS one
      WHERE one.fair <> 'off' AND EXISTS (SELECT FROM jobs_charge AS noted WHERE noted.queue = one.name)
      ORDER BY one.name LIMIT %(limit)s::bigint OFFSET %(skip)s::bigint) AS queue
WHERE pg_try_advisory_xact_lock_shared(1784635253, hashtext(queue.name) %% 64)
  AND pg_try_advisory_xact_lock(1784635254, hashtext(queue.name) %% 64)
