-- Bring crons forward, because something happened that they are for. One that is due sooner, paused or retired stays.
UPDATE scheduling_cron
SET next_at = statement_timestamp() + make_interval(secs => %(within_s)s::float8)
WHERE name = ANY (%(names)s::text[]) AND paused_at IS NULL AND retired_at IS NULL
  AND next_at > statement_timestamp() + make_interval(secs => %(within_s)s::float8)
