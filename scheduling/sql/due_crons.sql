-- Lock the crons whose fire time has come; one that another cluster is firing right now is left to it. Their names alone:
-- a row that cannot be read is a fault of its own. What an app of another version declares is left to its clusters.
-- The commit does not wait for the disk: a crash of the server may take back firings of the last moment, and nothing
-- that came of them, for who starts or ends those functions waits for it.
SELECT name, clock_timestamp() AS now, set_config('synchronous_commit', 'off', true) AS disk FROM scheduling_cron
WHERE paused_at IS NULL AND retired_at IS NULL AND next_at <= statement_timestamp()
  AND (source = 'person' OR name = ANY (%(declared)s::text[]))
ORDER BY next_at
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
