-- Whether a row lies in the queue that should have been handed out (again) a while ago, and that nobody works on:
-- a mutation that runs holds its row's lock.
SELECT function_id FROM scheduling_due
WHERE kind = %(kind)s AND next_at <= statement_timestamp() - make_interval(secs => %(late_s)s)
  AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s::text[]))
ORDER BY priority DESC, next_at
LIMIT 1
FOR UPDATE SKIP LOCKED
