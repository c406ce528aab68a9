-- Lock the crons whose fire time has come; one that another cluster is firing right now is left to it. Their names alone:
-- a row that cannot be read is a fault of its own.
SELECT name, clock_timestamp() AS now FROM scheduling_cron
WHERE paused_at IS NULL AND retired_at IS NULL AND next_at <= statement_timestamp()
ORDER BY next_at
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
