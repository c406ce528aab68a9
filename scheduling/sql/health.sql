-- The numbers that say whether scheduled functions run. Counting stops at a thousand, however many there are.
-- What runs right now is not late: the transaction that took its row out of the queue has put its number on it (xmax).
-- Of those that have run for as long the longest are named: they are among the oldest of their lanes.
-- Rows are read by the ranges of the queue's index (see lanes): what waits for next year is not read.
WITH running AS MATERIALIZED (
    SELECT coalesce(array_agg(backend_xid), '{}') AS xids FROM pg_stat_activity WHERE backend_xid IS NOT NULL
), late AS MATERIALIZED (
    SELECT due.run_at, lane.queue FROM scheduling_lane AS lane CROSS JOIN LATERAL (
        SELECT d.run_at FROM scheduling_due AS d
        WHERE d.kind = lane.kind AND d.queue = lane.queue AND d.priority = lane.priority
          AND d.next_at < statement_timestamp() - make_interval(secs => %(late_s)s)
          AND d.xmax <> ALL ((SELECT xids FROM running)::xid[])
        ORDER BY d.next_at, d.function_id LIMIT 1000) AS due
    LIMIT 1000
)
SELECT
    (SELECT count(*) FROM late) AS late,
    (SELECT coalesce(extract(epoch FROM clock_timestamp() - min(run_at)), 0)::float8 FROM late) AS oldest_late_s,
    ARRAY(SELECT DISTINCT queue FROM late LIMIT 5) AS late_queues,
    ARRAY(SELECT format('%%s #%%s for %%s s by backend %%s', f.function, f.id,
                        extract(epoch FROM statement_timestamp() - session.xact_start)::int, session.pid)
          FROM scheduling_lane AS lane CROSS JOIN LATERAL (
              SELECT d.function_id, d.xmax FROM scheduling_due AS d
              WHERE d.kind = lane.kind AND d.queue = lane.queue AND d.priority = lane.priority
                AND d.next_at < statement_timestamp() - make_interval(secs => %(late_s)s)
              ORDER BY d.next_at, d.function_id LIMIT 100) AS due
          JOIN pg_stat_activity AS session ON session.backend_xid = due.xmax
          JOIN scheduling_scheduledfunction AS f ON f.id = due.function_id
          WHERE session.xact_start < statement_timestamp() - make_interval(secs => %(late_s)s)
          ORDER BY session.xact_start LIMIT 5) AS longest,
    (SELECT count(*) FROM scheduling_cluster
      WHERE ending = 'frozen' AND ended_at > clock_timestamp() - interval '1 day') AS frozen,
    (SELECT count(*) FROM (SELECT 1 FROM scheduling_scheduledfunction
      WHERE status = 'unknown' AND ended_at > clock_timestamp() - interval '1 day' LIMIT 1000) AS counted) AS unknown,
    (SELECT count(*) FROM (SELECT 1 FROM scheduling_scheduledfunction
      WHERE status = 'failed' AND ended_at > clock_timestamp() - interval '1 day' LIMIT 1000) AS counted) AS failed
