-- Every limit and key with what it holds now, those most used first; shards are summed, and one without a row is full.
SELECT name, key, max(shards)::integer AS shards, bool_or(is_window) AS is_window, max(period_ms) AS period_ms,
       sum(rate) / count(*) * max(shards) AS rate, sum(most) / count(*) * max(shards) AS most,
       sum(ratelimits_value(value, ts, now_ms, is_window, rate, period_ms, most))
           + sum(most) / count(*) * GREATEST(max(shards) - count(*), 0) AS value,
       sum(used) AS used, count(*) OVER () AS found
FROM ratelimits_bucket,
     (SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint AS now_ms) AS clock
WHERE shard < shards AND (%(name)s::text IS NULL OR name = %(name)s)
  AND (%(key)s::text IS NULL OR key = %(key)s)
  AND (%(search)s::text IS NULL OR strpos(lower(name || ' ' || key), lower(%(search)s)) > 0)
GROUP BY name, key
ORDER BY sum(used) DESC, name, key
LIMIT %(limit)s;
