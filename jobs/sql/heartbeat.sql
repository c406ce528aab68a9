-- Renew a lease, and move progress and detail where given. No index holds these columns, so the update stays HOT.
UPDATE jobs_job
SET lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s::float8),
    progress = coalesce(%(progress)s::float8, progress),
    detail = coalesce(%(detail)s::text, detail)
WHERE id = %(job)s::bigint AND status = 'in_progress' AND worker_id = %(worker)s::bigint
  AND claim_no = %(claim_no)s::bigint AND lease_secret = %(secret)s::uuid
  AND lease_expires_at > statement_timestamp()
  AND (deadline_at IS NULL OR deadline_at > statement_timestamp())
RETURNING lease_expires_at
