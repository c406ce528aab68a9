-- The numbers that say whether scheduled functions run. Counting stops at a thousand, however many there are.
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM scheduling_due
      WHERE kind IN ('mutation', 'action')
        AND next_at < statement_timestamp() - make_interval(secs => %(late_s)s) LIMIT 1000) AS late) AS late,
    (SELECT extract(epoch FROM clock_timestamp() - min(due_at))::float8 FROM (SELECT due_at FROM scheduling_due
      WHERE kind IN ('mutation', 'action')
        AND next_at < statement_timestamp() - make_interval(secs => %(late_s)s) LIMIT 1000) AS late) AS oldest_late_s,
    (SELECT count(*) FROM scheduling_cluster
      WHERE ending = 'frozen' AND ended_at > clock_timestamp() - interval '1 day') AS frozen,
    (SELECT count(*) FROM (SELECT 1 FROM scheduling_scheduledfunction
      WHERE state = 'unknown' AND ended_at > clock_timestamp() - interval '1 day' LIMIT 1000) AS counted) AS unknown,
    (SELECT count(*) FROM (SELECT 1 FROM scheduling_scheduledfunction
      WHERE state = 'failed' AND ended_at > clock_timestamp() - interval '1 day' LIMIT 1000) AS counted) AS failed
