-- The worker whose key has this hash, and whether it is welcome and was heard of lately. `version`: who remembers the row
-- has the statement that acts for the worker look whether it is still this one (docs/adr/0115).
SELECT worker.id, worker.name, worker.owner_id, worker.queues, worker.steals, worker.polled_queues,
       worker.polled_at, worker.key_hash, worker.key_hint, worker.created_at, worker.last_seen_at, worker.revoked_at,
       worker.connected_at, worker.drained_at, worker.drained_by_id, worker.labels, worker.satisfies,
       statement_timestamp() AS read_at, worker.xmin::text AS version,
       worker.revoked_at IS NULL AND coalesce(person.is_active, true) AS is_welcome,
       coalesce(worker.last_seen_at > statement_timestamp() - make_interval(secs => %(every_s)s::float8), false) AS is_fresh
FROM jobs_worker AS worker LEFT JOIN auth_user AS person ON person.id = worker.owner_id
WHERE worker.key_hash = %(key_hash)s::text
