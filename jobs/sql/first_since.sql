-- The smallest id from which on every job was submitted at this moment or later, found by halving: ids and times of
-- submission grow together, so no index on the times is needed, and none is paid for by each job (docs/adr/0030).
-- Each step reads one entry of the primary key; a farm of ten million jobs takes 24 of them. Never null: with no such
-- job it is the id that the next one will have at the earliest.
WITH RECURSIVE search (low, high) AS (
    SELECT coalesce((SELECT id FROM jobs_job ORDER BY id LIMIT 1), 1),
           coalesce((SELECT id FROM jobs_job ORDER BY id DESC LIMIT 1), 0) + 1
    UNION ALL
    SELECT CASE WHEN met.created_at < %(since)s::timestamptz THEN met.id + 1 ELSE search.low END,
           CASE WHEN met.created_at < %(since)s::timestamptz THEN search.high ELSE half.way END
    FROM search
    CROSS JOIN LATERAL (SELECT (search.low + search.high) / 2 AS way) AS half
    LEFT JOIN LATERAL (
        SELECT job.id, job.created_at FROM jobs_job AS job
        WHERE job.id >= half.way AND job.id < search.high ORDER BY job.id LIMIT 1) AS met ON true
    WHERE search.low < search.high
)
SELECT low AS id FROM search WHERE low >= high
