-- Store the next piece of output of each of these attempts, and renew their leases. A row for each that holds its lease,
-- at its `place` (counted from 1): the number expected next, whether its piece was stored, and whether there was room.
-- Only the expected number inserts, so the same one twice is stored once. Rows are locked in the order of their ids, and a
-- job stands here once: its second piece would count as its first. What was written so far stands on the row: nothing is
-- counted. One whose row somebody else has locked, perhaps for long, has no row here: the others' streams go on. How much room the farm has, and owners who are near their quota, is what this process knows (docs/adr/0057);
-- pieces before this one in the batch count as stored.
WITH held AS MATERIALIZED (
    SELECT job.job_id AS id, job.fence, job.owner_id, job.next_seq, job.output_bytes, piece.place, piece.seq,
           piece.text, piece.size,
           job.output_bytes + job.earlier_output_bytes AS job_bytes,
           job.output_bytes + piece.size <= %(attempt_quota)s::bigint
           AND job.output_bytes + job.earlier_output_bytes + piece.size <= %(job_quota)s::bigint
           AND job.next_seq < %(piece_quota)s::integer AS fits
    FROM (SELECT * FROM unnest(%(job)s::bigint[], %(fence)s::bigint[], %(secret)s::uuid[], %(seq)s::bigint[], %(text)s::text[],
                               %(size)s::bigint[])
              WITH ORDINALITY AS each (job_id, fence, secret, seq, text, size, place) ORDER BY job_id) AS piece
    CROSS JOIN LATERAL (SELECT one.* FROM jobs_live AS one WHERE one.job_id = piece.job_id
                        FOR NO KEY UPDATE SKIP LOCKED) AS job
    WHERE job.fence = piece.fence AND job.lease_secret = piece.secret AND job.worker_id = %(worker)s::bigint
      AND (%(version)s::xid IS NULL OR EXISTS (SELECT FROM jobs_as_read(%(worker)s::bigint, %(version)s::xid)))
), sized AS (
    SELECT *, sum(size) OVER (ORDER BY place) AS all_size,
           sum(size) OVER (PARTITION BY owner_id ORDER BY place) AS owner_size
    FROM held
), judged AS (
    SELECT *, all_size <= %(farm_room)s::bigint AND NOT EXISTS (
               SELECT FROM unnest(%(near)s::integer[], %(room)s::bigint[]) AS near (owner_id, room)
               WHERE near.owner_id = sized.owner_id AND near.room < owner_size) AS has_room
    FROM sized
), piece AS MATERIALIZED (
    SELECT *, next_seq = seq AND fits AND has_room AS is_next FROM judged
), renewed AS (
    UPDATE jobs_live AS job
    SET lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s::float8),
        confirmed_fence = job.fence, next_seq = piece.next_seq + piece.is_next::integer,
        output_bytes = piece.output_bytes + CASE WHEN piece.is_next THEN piece.size ELSE 0 END
    FROM piece WHERE job.job_id = piece.id AND (piece.next_seq > piece.seq OR piece.is_next)
), written AS (
    INSERT INTO jobs_outputchunk (job_id, attempt, seq, text, written_at)
    SELECT id, fence, next_seq, text, statement_timestamp() FROM piece WHERE is_next
)
SELECT place, next_seq + is_next::integer AS next_seq, is_next AS stored, fits, has_room, owner_id, output_bytes, job_bytes
FROM piece
