-- Every limit and key with what it holds now, those most used first; shards are summed, and one without a row is full.
-- Which they are is found first, by their use alone: what they hold is a computation for each row, and of a hundred
-- thousand rows a page shows a few. Only sharded ones have to be grouped for that; most have one row.
WITH matching AS NOT MATERIALIZED (
    SELECT name, key, shards, used FROM ratelimits_bucket
    WHERE shard < shards AND (%(name)s::text IS NULL OR name = %(name)s)
      AND (%(key)s::text IS NULL OR key = %(key)s)
      AND (%(search)s::text IS NULL OR strpos(lower(name || ' ' || key), lower(%(search)s)) > 0)
), whole AS NOT MATERIALIZED (
    SELECT name, key, used FROM matching WHERE shards = 1
), summed AS MATERIALIZED (
    SELECT name, key, sum(used) AS used FROM matching WHERE shards > 1 GROUP BY name, key
), busiest AS MATERIALIZED (
    (SELECT name, key FROM whole ORDER BY used DESC, name, key LIMIT %(limit)s)
    UNION
    (SELECT name, key FROM summed ORDER BY used DESC, name, key LIMIT %(limit)s)
)
SELECT name, key, max(bucket.shards)::integer AS shards, bool_or(bucket.is_window) AS is_window,
       max(bucket.period_ms) AS period_ms,
       sum(bucket.rate) / count(*) * max(bucket.shards) AS rate,
       sum(bucket.most) / count(*) * max(bucket.shards) AS most,
       sum(CASE WHEN bucket.period_ms > 0 AND bucket.rate < 1e280 AND abs(bucket.ts::float8) < 1e18 THEN ratelimits_value(
               bucket.value, bucket.ts, now_ms, bucket.is_window, bucket.rate, bucket.period_ms, bucket.most)
           ELSE bucket.value END)
           + sum(bucket.most) / count(*) * GREATEST(max(bucket.shards) - count(*), 0) AS value,
       sum(bucket.used) AS used,
       (SELECT count(*) FROM whole) + (SELECT count(*) FROM summed) AS total
FROM busiest JOIN ratelimits_bucket AS bucket USING (name, key),
     (SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint AS now_ms) AS clock
WHERE bucket.shard < bucket.shards
GROUP BY name, key
ORDER BY sum(bucket.used) DESC, name, key
LIMIT %(limit)s
