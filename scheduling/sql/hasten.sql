-- Bring crons forward, because something happened that they are for, and say in how many seconds each fires. One that is
-- due sooner, paused or retired stays. Locked by name, as by whoever syncs crons with the code.
WITH moved AS (
    UPDATE scheduling_cron
    SET next_at = statement_timestamp() + make_interval(secs => %(within_s)s::float8)
    WHERE name = ANY (ARRAY(
        SELECT name FROM scheduling_cron
        WHERE name = ANY (%(names)s::text[]) AND paused_at IS NULL AND retired_at IS NULL
          AND next_at > statement_timestamp() + make_interval(secs => %(within_s)s::float8)
        ORDER BY name FOR NO KEY UPDATE))
)
SELECT name, least(extract(epoch FROM next_at - statement_timestamp())::float8, %(within_s)s::float8) AS seconds
FROM scheduling_cron WHERE name = ANY (%(names)s::text[]) AND paused_at IS NULL AND retired_at IS NULL
