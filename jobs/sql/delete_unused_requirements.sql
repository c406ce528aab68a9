-- Delete requirements that lock_unused_requirements.sql locked, but for those that got a job until then.
DELETE FROM jobs_requirement AS one
WHERE id = ANY (%(ids)s::integer[]) AND NOT EXISTS (SELECT FROM jobs_job WHERE requirement_id = one.id)
RETURNING id
