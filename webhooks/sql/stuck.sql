-- Deliveries that should have been processed by now and that no scheduled function is going to process: they came,
-- or their next attempt was due, longer than `late_s` ago. With the error of the last run of theirs that failed, if
-- one did: a run that kills its process leaves no word on the delivery itself. Telemetry that is new waits for its cron;
-- for five times as long, or one that kills the cron's process would be the first of each firing for ever.
WITH awaited AS MATERIALIZED (
    SELECT (run.args ->> 'delivery')::bigint AS delivery FROM scheduling_due AS due
    JOIN scheduling_scheduledfunction AS run ON run.id = due.function_id
    WHERE run.function = %(function)s::text
), late AS MATERIALIZED (
    SELECT id, ctid::text AS row_pointer, source, coalesce(next_attempt_at, last_duplicate_at, received_at) AS due_at
    FROM webhooks_delivery
    WHERE status IN ('received', 'failed')
      AND coalesce(next_attempt_at, last_duplicate_at, received_at) < clock_timestamp() - make_interval(secs => %(late_s)s
          * CASE WHEN source = 'sandbox_telemetry' AND status = 'received' THEN 5 ELSE 1 END)
      AND NOT EXISTS (SELECT FROM awaited WHERE awaited.delivery = webhooks_delivery.id)
    ORDER BY id LIMIT %(limit)s
)
SELECT late.id, late.row_pointer, late.source, (
    SELECT run.error FROM scheduling_scheduledfunction AS run
    WHERE run.function = %(function)s::text AND run.status = 'failed' AND run.args ->> 'delivery' = late.id::text
      AND run.ended_at >= late.due_at
    ORDER BY run.id DESC LIMIT 1
) AS error
FROM late ORDER BY late.id
