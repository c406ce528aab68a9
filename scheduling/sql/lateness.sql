-- How late functions began that ended within the last five minutes, of a thousand at most: the latest ones.
SELECT coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY late_s), 0)::float8 AS p50_s,
       coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY late_s), 0)::float8 AS p99_s,
       coalesce(max(late_s), 0)::float8 AS most_s
FROM (SELECT greatest(extract(epoch FROM started_at - run_at)::float8, 0) AS late_s
      FROM scheduling_scheduledfunction
      WHERE ended_at > statement_timestamp() - interval '5 minutes' AND started_at IS NOT NULL
      ORDER BY ended_at DESC, id DESC LIMIT 1000) AS lately
