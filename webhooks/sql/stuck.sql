-- Deliveries that should have been processed by now and that no scheduled function is going to process: they came,
-- or their next attempt was due, longer than `late_s` ago. With the error of the last run of theirs that failed, if
-- one did: a run that kills its process leaves no word on the delivery itself. Telemetry that is new waits for its cron
-- and not for a run.
WITH late AS MATERIALIZED (
    SELECT id, ctid::text AS row_pointer, source, coalesce(next_attempt_at, last_duplicate_at, received_at) AS due_at
    FROM webhooks_delivery
    WHERE status IN ('received', 'failed') AND (source <> 'sandbox_telemetry' OR status = 'failed')
      AND coalesce(next_attempt_at, last_duplicate_at, received_at) < clock_timestamp() - make_interval(secs => %(late_s)s)
    ORDER BY id LIMIT %(limit)s
), awaited AS MATERIALIZED (
    SELECT (run.args ->> 'delivery')::bigint AS delivery FROM scheduling_due AS due
    JOIN scheduling_scheduledfunction AS run ON run.id = due.function_id
    WHERE run.function = %(function)s::text
)
SELECT late.id, late.row_pointer, late.source, (
    SELECT run.error FROM scheduling_scheduledfunction AS run
    WHERE run.function = %(function)s::text AND run.status = 'failed' AND run.args ->> 'delivery' = late.id::text
      AND run.ended_at >= late.due_at
    ORDER BY run.id DESC LIMIT 1
) AS error
FROM late WHERE NOT EXISTS (SELECT FROM awaited WHERE awaited.delivery = late.id) ORDER BY late.id
