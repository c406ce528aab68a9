-- The pieces of a job's output behind one of them, in their order. Compared as a row, so that the primary key leads
-- straight to what follows. Each token of each watched stream is read by this.
SELECT attempt, seq, text
FROM jobs_outputchunk
WHERE job_id = %(job)s::bigint
  AND (attempt, seq) > (%(attempt)s::bigint, %(seq)s::integer)
ORDER BY attempt, seq
LIMIT %(most)s::bigint
