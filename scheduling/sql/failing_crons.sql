-- Crons whose last firing of this day that is over failed, or whose end nobody knows, and is not tried again: of the last
-- thousand such firings, which have an index. What is tried again is left out before the last one is looked for: where
-- each firing is, the newest always is. Later ones are found by the index of fire times, and both are looked up for each
-- (OFFSET 0), since a join of all would read the whole table.
SELECT failed.cron_id AS name, cron.source, failed.id, failed.error
FROM (SELECT DISTINCT ON (one.cron_id) one.*
      FROM (SELECT id, cron_id, fire_at, error FROM scheduling_scheduledfunction
            WHERE status IN ('failed', 'unknown') AND cron_id IS NOT NULL
              AND ended_at > statement_timestamp() - interval '1 day'
            ORDER BY ended_at DESC LIMIT 1000) AS one
      WHERE NOT EXISTS (SELECT FROM scheduling_scheduledfunction AS again WHERE again.retry_of_id = one.id OFFSET 0)
      ORDER BY one.cron_id, one.fire_at DESC, one.id DESC) AS failed
JOIN scheduling_cron AS cron ON cron.name = failed.cron_id AND cron.retired_at IS NULL AND cron.paused_at IS NULL
WHERE NOT EXISTS (
      SELECT FROM scheduling_scheduledfunction AS later
      WHERE later.cron_id = failed.cron_id AND later.fire_at > failed.fire_at AND later.attempt = 1
        AND later.status = 'success' OFFSET 0)
ORDER BY failed.cron_id
LIMIT %(limit)s::bigint
