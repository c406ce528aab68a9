-- Let these jobs start, which the caller has locked and which wait for nothing more. That is asked once more: while a lock was
-- waited for one may have run, and begun to wait for something else.
SELECT job_id AS id, queue, due_at, is_later FROM jobs_let_go(ARRAY(
    SELECT given.id FROM unnest(%(ids)s::bigint[]) AS given (id)
    WHERE NOT EXISTS (SELECT FROM jobs_edge AS open WHERE open.open_of = given.id OFFSET 0)
      AND NOT EXISTS (
        SELECT FROM jobs_suspension AS wait
        WHERE wait.job_id = given.id AND wait.signal <> '' AND wait.taken_id IS NULL AND NOT wait.timed_out OFFSET 0)))
