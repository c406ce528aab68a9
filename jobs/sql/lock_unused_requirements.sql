-- Requirements that no living job has, locked, so that nobody gives them to one meanwhile. One that is locked now is in
-- use. The base of another, which a worker is asked for in its stead, goes once that one is gone.
SELECT id FROM jobs_requirement AS one
WHERE retired_at IS NULL
  AND NOT EXISTS (SELECT FROM jobs_live WHERE requirement_id = one.id)
  AND NOT EXISTS (SELECT FROM jobs_requirement AS other WHERE other.base_id = one.id AND other.retired_at IS NULL)
ORDER BY id LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED
