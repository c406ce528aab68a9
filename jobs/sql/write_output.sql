-- Store the next piece of output of each of these attempts, and renew their leases. A row for each that holds its lease,
-- at its `place` (counted from 1): the number expected next, whether its piece was stored, and whether there was room.
-- The same number twice is stored once, since only the expected number inserts; a gap changes nothing, and neither does
-- the expected piece without room. The rows are locked in the order of their ids: two batches in opposite orders would
-- otherwise wait for one another. A job stands here once: the statement would count its second piece as its first.
-- What was written so far stands on the row that is written anyway: nothing is counted. Nor is what the owner has: how
-- much room the farm has, and owners who are near their quota, is what this process knows (docs/adr/0057). Pieces before
-- this one in the batch count as stored. No lease is held by a worker whose row is not the `version` that was read
-- (docs/adr/0115).
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
    CROSS JOIN LATERAL (SELECT one.* FROM jobs_live AS one WHERE one.job_id = piece.job_id FOR UPDATE) AS job
    WHERE job.fence = piece.fence AND job.lease_secret = piece.secret AND job.worker_id = %(worker)s::bigint
      AND (%(version)s::xid IS NULL OR EXISTS (
          SELECT FROM jobs_worker AS worker LEFT JOIN auth_user AS person ON person.id = worker.owner_id
          WHERE worker.id = %(worker)s::bigint AND worker.xmin = %(version)s::xid AND coalesce(person.is_active, true)))
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
