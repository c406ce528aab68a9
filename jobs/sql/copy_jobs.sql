-- New jobs as lines of COPY's text format: a bulk without twins and limits. Columns as queries.submits writes them.
COPY jobs_job (
    id, kind, queue, priority, owner_id, group_id, token_id, is_metered, retry_of_id, max_attempts, timeout_s,
    retry_when_lost, retry_on_timeout, requirement_id, created_at,
    run_at, expires_at, status, failures, fence, next_seq, lane_id)
FROM STDIN
