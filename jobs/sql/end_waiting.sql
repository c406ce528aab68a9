-- End jobs that wait, in the order of their ids: as canceled, or timed out. The caller holds their rows' locks.
WITH gone AS (
    DELETE FROM jobs_live
    WHERE ctid = ANY (ARRAY(
        SELECT live.tid FROM unnest(%(ids)s::bigint[]) AS given (job_id) CROSS JOIN LATERAL (
            SELECT one.ctid AS tid, one.lease_secret FROM jobs_live AS one WHERE one.job_id = given.job_id OFFSET 0) AS live
        WHERE live.lease_secret IS NULL))
    RETURNING *
)
INSERT INTO jobs_outcome (
    job_id, status, ended_at, kind, queue, run_at, claimed_at, worker_id, worker_name, attempt, failures, fence,
    confirmed_fence, last_secret, progress, detail, next_seq, output_bytes, earlier_output_bytes)
SELECT job_id, %(status)s::text, statement_timestamp(), kind, queue,
       CASE WHEN run_at = '9000-01-01 00:00:00+00' THEN statement_timestamp() ELSE run_at END, claimed_at, worker_id, worker_name, failures,
       failures, fence, confirmed_fence, NULL, progress, detail, next_seq, output_bytes, earlier_output_bytes
FROM gone RETURNING job_id AS id
