-- Workers that may take this person's jobs and announce models: what each serves, and whether it is away, for no longer than
-- `away_s`. One that is drained, or whose key opens nothing, offers nothing. Asked at each call of /v1: by the ORM it took a
-- sixth of a short call.
SELECT worker.id, worker.queues, facts.models, facts.loaded, facts.reported_at, facts.concurrency, facts.cache_used,
       facts.leaving OR worker.last_seen_at <= statement_timestamp() - make_interval(secs => %(alive_s)s::float8) AS is_away
FROM jobs_worker AS worker JOIN jobs_workerfacts AS facts ON facts.worker_id = worker.id
WHERE (worker.owner_id IS NULL OR worker.owner_id = %(user)s::bigint) AND worker.revoked_at IS NULL
  AND worker.drained_at IS NULL AND facts.models <> '{}'
  AND (%(models)s::text[] IS NULL OR facts.models::text[] && %(models)s::text[])
  AND worker.last_seen_at > statement_timestamp() - make_interval(secs => greatest(%(alive_s)s::float8, %(away_s)s::float8))
  AND (NOT facts.leaving OR facts.reported_at > statement_timestamp() - make_interval(secs => %(away_s)s::float8))
