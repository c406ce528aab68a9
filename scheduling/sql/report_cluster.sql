-- Write down that a cluster lives, and how it is; no row if the others gave it up. The commit does not wait for the disk:
-- a crash of the server is over before a cluster counts as silent.
UPDATE scheduling_cluster
SET last_seen_at = clock_timestamp(), workers = %(workers)s::smallint, free = %(free)s::smallint, waits = %(waits)s::boolean,
    dispatched = %(dispatched)s::bigint, stat = %(stat)s::bytea, errors = %(errors)s::text[]
WHERE cluster_id = %(cluster_id)s::uuid AND ended_at IS NULL
  AND set_config('synchronous_commit', 'off', true) IS NOT NULL
RETURNING last_seen_at
