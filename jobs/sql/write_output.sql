-- Store the next piece of an attempt's output and renew its lease. Returns the number expected next, whether this piece
-- was stored, and whether there was room for it; no row: the lease is lost. The same number twice is stored once, since
-- only the expected number inserts; a gap changes nothing, and neither does the expected piece without room.
-- What was written so far stands on the row that is written anyway: nothing is counted. Nor is what the owner has: how
-- much room the farm has, and owners who are near their quota, is what this process knows (docs/adr/0057).
WITH held AS MATERIALIZED (
    SELECT id, fence, owner_id, next_seq, output_bytes, output_bytes + earlier_output_bytes AS job_bytes,
           output_bytes + %(size)s::bigint <= %(attempt_quota)s::bigint
           AND output_bytes + earlier_output_bytes + %(size)s::bigint <= %(job_quota)s::bigint
           AND next_seq < %(piece_quota)s::integer AS fits,
           %(size)s::bigint <= %(farm_room)s::bigint AND NOT EXISTS (
               SELECT FROM unnest(%(near)s::integer[], %(room)s::bigint[]) AS near (owner_id, room)
               WHERE near.owner_id = jobs_job.owner_id AND near.room < %(size)s::bigint) AS has_room
    FROM jobs_job
    WHERE id = %(job)s::bigint AND status = 'in_progress' AND worker_id = %(worker)s::bigint
      AND fence = %(fence)s::bigint AND lease_secret = %(secret)s::uuid
    FOR UPDATE
), piece AS MATERIALIZED (
    SELECT *, next_seq = %(seq)s::integer AND fits AND has_room AS is_next FROM held
), renewed AS (
    UPDATE jobs_job AS job
    SET lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s::float8),
        confirmed_fence = job.fence, next_seq = piece.next_seq + piece.is_next::integer,
        output_bytes = piece.output_bytes + CASE WHEN piece.is_next THEN %(size)s::bigint ELSE 0 END
    FROM piece WHERE job.id = piece.id AND (piece.next_seq > %(seq)s::integer OR piece.is_next)
), written AS (
    INSERT INTO jobs_outputchunk (job_id, attempt, seq, text, written_at)
    SELECT id, fence, next_seq, %(text)s::text, statement_timestamp() FROM piece WHERE is_next
)
SELECT next_seq + is_next::integer AS next_seq, is_next AS stored, fits, has_room, owner_id, output_bytes, job_bytes FROM piece
