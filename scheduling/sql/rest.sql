-- How long a cluster that has nothing in its hands may sleep: seconds until the first function of any lane (see lanes) is
-- due, a cron fires, or a task of django-q2's own is; below zero when that has passed, null when nothing is ahead.
SELECT extract(epoch FROM least(
    (SELECT min(head.next_at) FROM scheduling_lane AS lane CROSS JOIN LATERAL (
        SELECT due.next_at FROM scheduling_due AS due
        WHERE due.kind = lane.kind AND due.queue = lane.queue AND due.priority = lane.priority
        ORDER BY due.next_at, due.function_id LIMIT 1) AS head
     WHERE lane.kind = %(kind)s::text AND (%(queues)s::text[] IS NULL OR lane.queue = ANY (%(queues)s::text[]))),
    (SELECT min(next_at) FROM scheduling_cron
     WHERE paused_at IS NULL AND retired_at IS NULL AND next_at IS NOT NULL
       AND (source = 'person' OR name = ANY (%(declared)s::text[]))),
    (SELECT min(lock) FROM django_q_ormq WHERE key = %(own)s::text)) - clock_timestamp())::float8 AS seconds
