-- Give tokens back, each shard its part, never above what it can hold; a shard that has no row is full already.
-- Locked in order of shard, as everywhere. The join gives the locked row's own last version to the SET.
WITH clock AS (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms),
locked AS MATERIALIZED (
    SELECT id FROM ratelimits_bucket
    WHERE name = %(name)s AND key = %(key)s AND shard < %(shards)s ORDER BY shard FOR UPDATE
)
UPDATE ratelimits_bucket AS bucket
SET value = LEAST(%(most)s, %(part)s + ratelimits_value(
        bucket.value, bucket.ts, clock.now_ms, %(is_window)s, %(rate)s, %(period_ms)s, %(most)s)),
    ts = ratelimits_moment(bucket.ts, clock.now_ms, %(is_window)s, %(period_ms)s),
    used = GREATEST(bucket.used - %(part)s, 0), shards = %(shards)s::integer, is_window = %(is_window)s,
    rate = %(rate)s, period_ms = %(period_ms)s, most = %(most)s
FROM locked, clock WHERE bucket.id = locked.id
RETURNING bucket.id;
