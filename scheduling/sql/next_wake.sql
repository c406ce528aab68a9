-- Seconds until the next function of a kind is due, or the next cron fires: below zero when that has passed, null
-- when nothing is ahead. One look at the head of an index for each priority in use.
SELECT extract(epoch FROM least(
    (SELECT min(next_at) FROM scheduling_due
     WHERE kind = %(kind)s AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s::text[]))),
    (SELECT min(next_at) FROM scheduling_cron
     WHERE paused_at IS NULL AND retired_at IS NULL AND next_at IS NOT NULL)) - clock_timestamp())::float8 AS seconds
