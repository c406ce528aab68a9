-- Take note of clusters that have been silent for too long: their machine is gone, or whoever watched them is.
-- A database that was away itself says nothing about them.
UPDATE scheduling_cluster
SET ended_at = clock_timestamp(), ending = 'lost', why = 'it was not heard of any more'
WHERE cluster_id IN (
    SELECT cluster_id FROM scheduling_cluster
    WHERE ended_at IS NULL
      AND coalesce(last_seen_at, started_at) < clock_timestamp() - make_interval(secs => %(silent_s)s)
      AND pg_postmaster_start_time() < clock_timestamp() - make_interval(secs => %(silent_s)s)
    FOR UPDATE SKIP LOCKED)
RETURNING cluster_id
