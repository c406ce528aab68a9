-- New jobs as lines of COPY's text format: a bulk without twins and limits. Columns as queries.submits writes them.
COPY jobs_job (
    id, kind, queue, priority, owner_id, group_id, retry_of_id, created_at, run_at, expires_at, max_attempts, timeout_s,
    retry_on_timeout, status, failures, claim_no, next_seq, shy_of)
FROM STDIN
