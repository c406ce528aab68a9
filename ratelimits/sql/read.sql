-- The stored states of one limit and key, and the database's clock: a row for each shard there is; if there is none,
-- one row without a state. Of a key that lies in another number of shards: what it would be laid out as.
WITH clock AS (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms)
SELECT clock.now_ms, bucket.shard, bucket.value, bucket.ts
FROM clock LEFT JOIN LATERAL (
    SELECT shard, value, ts FROM ratelimits_bucket
    WHERE name = %(name)s AND key = %(key)s AND shards = %(shards)s
    UNION ALL
    SELECT shard, whole.value / %(shards)s, whole.ts
    FROM ratelimits_together(%(name)s, %(key)s, clock.now_ms) AS whole, generate_series(0, %(shards)s::integer - 1) AS shard
    WHERE ratelimits_lies_otherwise(%(name)s, %(key)s, %(shards)s::integer)
) AS bucket ON true;
