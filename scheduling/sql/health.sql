-- The numbers that say whether scheduled functions run. Counting stops at a thousand, however many there are.
-- What runs right now is not late: the transaction that took its row out of the queue has put its number on it (xmax).
-- Rows are read by the ranges of the queue's index (see lanes): what waits for next year is not read. Mutations come
-- first, in their order: those that have run for long are named.
WITH head AS MATERIALIZED (
    SELECT due.*, lane.queue FROM (SELECT * FROM scheduling_lane ORDER BY kind DESC, priority DESC) AS lane
    CROSS JOIN LATERAL (
        SELECT d.run_at, d.function_id, d.xmax AS xid FROM scheduling_due AS d
        WHERE d.kind = lane.kind AND d.queue = lane.queue AND d.priority = lane.priority
          AND d.next_at < statement_timestamp() - make_interval(secs => %(late_s)s)
        ORDER BY d.next_at, d.function_id LIMIT 1000) AS due
    LIMIT 1000
), old AS MATERIALIZED (
    SELECT head.*, session.pid, statement_timestamp() - session.xact_start AS age
    FROM head LEFT JOIN pg_stat_activity AS session ON session.backend_xid = head.xid
)
SELECT
    (SELECT count(*) FROM old WHERE pid IS NULL) AS late,
    (SELECT coalesce(extract(epoch FROM clock_timestamp() - min(run_at)), 0)::float8 FROM old WHERE pid IS NULL) AS oldest_late_s,
    ARRAY(SELECT DISTINCT queue FROM old WHERE pid IS NULL LIMIT 5) AS late_queues,
    ARRAY(SELECT format('%%s #%%s for %%s s by backend %%s', f.function, f.id, extract(epoch FROM age)::int, pid)
          FROM old JOIN scheduling_scheduledfunction AS f ON f.id = old.function_id
          WHERE age > make_interval(secs => %(late_s)s) ORDER BY age DESC LIMIT 5) AS longest,
    (SELECT count(*) FROM scheduling_cluster
      WHERE ending = 'frozen' AND ended_at > clock_timestamp() - interval '1 day') AS frozen,
    (SELECT count(*) FROM (SELECT 1 FROM scheduling_scheduledfunction
      WHERE status = 'unknown' AND ended_at > statement_timestamp() - interval '1 day'
      ORDER BY ended_at DESC LIMIT 1000) AS counted) AS unknown,
    (SELECT count(*) FROM (SELECT 1 FROM scheduling_scheduledfunction
      WHERE status = 'failed' AND ended_at > statement_timestamp() - interval '1 day'
      ORDER BY ended_at DESC LIMIT 1000) AS counted) AS failed
