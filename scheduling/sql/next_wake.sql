-- Seconds until the next function of some lanes is due, or the next cron fires: below zero when that has passed, null
-- when nothing is ahead. One read of the index for each lane, just before this moment: what was due then and is still
-- there is in this cluster's hands, or in another's.
SELECT extract(epoch FROM least(
    (SELECT min(head.next_at)
     FROM unnest(%(queue)s::text[], %(priority)s::smallint[]) AS lane (queue, priority) CROSS JOIN LATERAL (
        SELECT due.next_at FROM scheduling_due AS due
        WHERE due.kind = %(kind)s::text AND due.queue = lane.queue AND due.priority = lane.priority
          AND due.next_at > statement_timestamp() - make_interval(secs => %(lookback_s)s::float8)
          AND due.function_id <> ALL (%(excluded)s::bigint[])
        ORDER BY due.next_at, due.function_id LIMIT 1) AS head),
    (SELECT min(next_at) FROM scheduling_cron
     WHERE paused_at IS NULL AND retired_at IS NULL AND next_at IS NOT NULL
       AND (source = 'person' OR name = ANY (%(declared)s::text[])))) - clock_timestamp())::float8 AS seconds
