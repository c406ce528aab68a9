-- Take note of clusters that have been silent for too long: their machine is gone, or whoever watched them is.
-- A database that was away itself says nothing about them.
-- Returns these, and clusters that are over, or that nobody knows, and still have an action in progress: the process
-- that should have ended it died in between. There are few running actions, so this is a short walk of their index.
WITH lost AS (
    UPDATE scheduling_cluster
    SET ended_at = clock_timestamp(), ending = 'lost', why = 'it was not heard of any more'
    WHERE cluster_id IN (
        SELECT cluster_id FROM scheduling_cluster
        WHERE ended_at IS NULL
          AND coalesce(last_seen_at, started_at) < clock_timestamp() - make_interval(secs => %(silent_s)s)
          AND pg_postmaster_start_time() < clock_timestamp() - make_interval(secs => %(silent_s)s)
        FOR UPDATE SKIP LOCKED)
    RETURNING cluster_id
)
SELECT cluster_id FROM lost
UNION
SELECT f.cluster_id FROM scheduling_scheduledfunction AS f
WHERE f.status = 'in_progress'
  AND NOT EXISTS (SELECT 1 FROM scheduling_cluster AS c WHERE c.cluster_id = f.cluster_id AND c.ended_at IS NULL)
