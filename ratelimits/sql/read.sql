-- The stored states of one limit and key, and the database's clock: a row for each shard there is; if there is none,
-- one row without a state.
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms, bucket.shard, bucket.value, bucket.ts
FROM (VALUES (1)) AS always
LEFT JOIN ratelimits_bucket AS bucket ON bucket.name = %(name)s AND bucket.key = %(key)s AND bucket.shard < %(shards)s;
