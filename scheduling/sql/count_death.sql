-- Count a death of the process that ran this mutation, and let it wait before its next run. No row: its session has not
-- ended yet and holds the lock, or there is nothing left to run.
UPDATE scheduling_due
SET deaths = deaths + 1, next_at = clock_timestamp() + make_interval(secs => %(delay_s)s::float8)
WHERE function_id = (SELECT function_id FROM scheduling_due WHERE function_id = %(id)s::bigint FOR UPDATE SKIP LOCKED)
RETURNING deaths
