-- The smallest id from which on every attempt of a job ended at this moment or later,
-- found by halving as in jobs/sql/first_since.sql: ids and times grow together, so no index on the times is needed.
WITH RECURSIVE search (low, high) AS (
    SELECT coalesce((SELECT id FROM jobs_attempt ORDER BY id LIMIT 1), 1),
           coalesce((SELECT id FROM jobs_attempt ORDER BY id DESC LIMIT 1), 0) + 1
    UNION ALL
    SELECT CASE WHEN met.ended_at < %(since)s::timestamptz THEN met.id + 1 ELSE search.low END,
           CASE WHEN met.ended_at < %(since)s::timestamptz THEN search.high ELSE half.way END
    FROM search
    CROSS JOIN LATERAL (SELECT (search.low + search.high) / 2 AS way) AS half
    LEFT JOIN LATERAL (
        SELECT one.id, one.ended_at FROM jobs_attempt AS one
        WHERE one.id >= half.way AND one.id < search.high ORDER BY one.id LIMIT 1) AS met ON true
    WHERE search.low < search.high
)
SELECT low AS id FROM search WHERE low >= high
