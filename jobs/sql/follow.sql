-- A job that was stored just now waits behind the one that has its unique_key: that row says so, and when this one is due
-- once the key is its own (jobs_leave_key). The caller holds the lock of the other's live row.
WITH key AS (
    UPDATE jobs_uniquekey SET follower_id = %(id)s::bigint, follower_due_at = %(due_at)s::timestamptz
    WHERE job_id = %(holder)s::bigint
), live AS (
    UPDATE jobs_live SET has_key = true
    WHERE ctid = ANY (ARRAY(SELECT one.ctid FROM jobs_live AS one WHERE one.job_id = %(id)s::bigint OFFSET 0))
)
UPDATE jobs_job SET unique_key = %(unique_key)s::text WHERE id = %(id)s::bigint
