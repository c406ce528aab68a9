-- Lock waiting jobs that no worker has begun in time (it bounds the first start alone), with what they took of a limit. Locked first and written after the
-- tokens are back: who holds a limit's row while it submits a twin looks at these rows, and waits for one that is
-- written.
SELECT id, kind, fence, confirmed_fence, limit_name, limit_key, limit_count, is_metered FROM jobs_job
WHERE status = 'pending' AND expires_at <= statement_timestamp() AND confirmed_fence = 0
  AND id <> ALL (%(but_for)s::bigint[])
ORDER BY id LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED
