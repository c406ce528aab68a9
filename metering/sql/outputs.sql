-- What each of these attempts wrote, of those that wrote anything: how many bytes, and the pieces that begin in its first
-- `most` bytes, with the payload of its job. An output may have 50 MB: the sizes of its pieces are read without them.
SELECT attempt.job_id, attempt.fence, job.payload::text AS payload, written.size, written.head
FROM unnest(%(job)s::bigint[], %(fence)s::bigint[]) AS attempt (job_id, fence)
JOIN jobs_job AS job ON job.id = attempt.job_id
CROSS JOIN LATERAL (
    SELECT sum(piece.size)::bigint AS size,
           string_agg(piece.text, '' ORDER BY piece.seq) FILTER (WHERE piece.before < %(most)s::bigint) AS head
    FROM (SELECT chunk.seq, chunk.text, octet_length(chunk.text) AS size,
                 sum(octet_length(chunk.text)) OVER (ORDER BY chunk.seq) - octet_length(chunk.text) AS before
          FROM jobs_outputchunk AS chunk
          WHERE chunk.job_id = attempt.job_id AND chunk.attempt = attempt.fence) AS piece
) AS written
WHERE written.size > 0
