-- Store the next piece of an attempt's output and renew its lease. Returns the number expected next and whether this
-- piece was the one expected; no row: the lease is lost. The same number twice is stored once, since only the expected
-- number inserts; a gap changes nothing.
WITH held AS MATERIALIZED (
    SELECT id, claim_no, next_seq FROM jobs_job
    WHERE id = %(job)s::bigint AND status = 'in_progress' AND worker_id = %(worker)s::bigint
      AND claim_no = %(claim_no)s::bigint AND lease_secret = %(secret)s::uuid
    FOR UPDATE
), renewed AS (
    UPDATE jobs_job AS job
    SET lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s::float8),
        confirmed_claim = job.claim_no, next_seq = held.next_seq + (held.next_seq = %(seq)s::integer)::integer
    FROM held WHERE job.id = held.id AND held.next_seq >= %(seq)s::integer
), written AS (
    INSERT INTO jobs_outputchunk (job_id, attempt, seq, text, written_at)
    SELECT id, claim_no, next_seq, %(text)s::text, statement_timestamp() FROM held WHERE next_seq = %(seq)s::integer
)
SELECT next_seq + (next_seq = %(seq)s::integer)::integer AS next_seq, next_seq = %(seq)s::integer AS stored FROM held
