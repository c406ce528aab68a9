-- Delete retired requirements whose last job is deleted.
DELETE FROM jobs_requirement WHERE id = ANY (ARRAY(
    SELECT one.id FROM jobs_requirement AS one
    WHERE one.retired_at IS NOT NULL AND NOT EXISTS (SELECT FROM jobs_job WHERE requirement_id = one.id)
      AND NOT EXISTS (SELECT FROM jobs_requirement AS other WHERE other.base_id = one.id)
    ORDER BY one.id LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED))
RETURNING id
