-- Requirements that no job has, locked, so that nobody gives them to one meanwhile. One that is locked now is in use.
-- The base of another, which a worker is asked for in its stead, goes once that one is gone.
SELECT id FROM jobs_requirement AS one
WHERE created_at < statement_timestamp() - make_interval(secs => %(age_s)s::float8)
  AND NOT EXISTS (SELECT FROM jobs_job WHERE requirement_id = one.id)
  AND NOT EXISTS (SELECT FROM jobs_requirement WHERE base_id = one.id)
ORDER BY id LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED
