-- Forget clusters that ended long ago.
DELETE FROM scheduling_cluster WHERE ended_at < clock_timestamp() - make_interval(secs => %(age_s)s) RETURNING cluster_id
