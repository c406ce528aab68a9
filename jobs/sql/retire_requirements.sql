-- Retire requirements that lock_unused_requirements.sql locked, but for those that got a job until then: claims do not
-- look at them any more, workers do not carry their numbers, and the next job that wants such a set makes it anew. The row
-- stays for the ended jobs that show it, under another text.
WITH retired AS (
    UPDATE jobs_requirement AS one
    SET retired_at = statement_timestamp(), text = 'retired ' || one.id
    WHERE id = ANY (%(ids)s::integer[])
      AND NOT EXISTS (SELECT FROM jobs_live WHERE requirement_id = one.id)
    RETURNING id
), forgotten AS (
    UPDATE jobs_worker AS worker SET satisfies = ARRAY(
        SELECT id FROM unnest(worker.satisfies) AS id WHERE id NOT IN (SELECT retired.id FROM retired))
    WHERE worker.id = ANY (ARRAY(
        SELECT id FROM jobs_worker WHERE satisfies && %(ids)s::integer[] ORDER BY id FOR UPDATE))
)
SELECT id FROM retired
