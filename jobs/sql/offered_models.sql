-- What the live workers that may take this person's jobs announce of models. A drained worker offers nothing. One that
-- ended is here for as long as one that was killed: it may be starting anew.
SELECT worker.queues, facts.models, facts.loaded, facts.reported_at, facts.leaving
FROM jobs_worker AS worker
JOIN jobs_workerfacts AS facts ON facts.worker_id = worker.id
WHERE (worker.owner_id IS NULL OR worker.owner_id = %(user)s::integer) AND worker.revoked_at IS NULL
  AND worker.drained_at IS NULL AND facts.models <> '{}'
  AND worker.last_seen_at > statement_timestamp() - make_interval(secs => %(alive_s)s::float8)
