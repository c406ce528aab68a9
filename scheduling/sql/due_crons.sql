-- Lock the crons whose fire time has come; one that another cluster is firing right now is left to it.
SELECT name, function, args, schedule, missed, at_most, overlap, next_at, last_fire_at, clock_timestamp() AS now FROM scheduling_cron
WHERE paused_at IS NULL AND retired_at IS NULL AND next_at <= statement_timestamp()
ORDER BY next_at
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
