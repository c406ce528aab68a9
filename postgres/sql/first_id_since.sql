-- The smallest id from which on every row of a table has this moment or a later one in a column, found by halving: ids
-- and such times grow together, so no index on the times is needed, and none is paid for by each row (docs/adr/0031).
-- Each step reads one entry of the primary key; ten million rows take 24 of them. Never null: with no such row it is the
-- id that the next one will have at the earliest. {table} and {column} are names from the code.
WITH RECURSIVE search (low, high) AS (
    SELECT coalesce((SELECT id FROM {table} ORDER BY id LIMIT 1), 1),
           coalesce((SELECT id FROM {table} ORDER BY id DESC LIMIT 1), 0) + 1
    UNION ALL
    SELECT CASE WHEN met.at < %(since)s::timestamptz THEN met.id + 1 ELSE search.low END,
           CASE WHEN met.at < %(since)s::timestamptz THEN search.high ELSE half.way END
    FROM search
    CROSS JOIN LATERAL (SELECT (search.low + search.high) / 2 AS way) AS half
    LEFT JOIN LATERAL (
        SELECT one.id, one.{column} AS at FROM {table} AS one
        WHERE one.id >= half.way AND one.id < search.high ORDER BY one.id LIMIT 1) AS met ON true
    WHERE search.low < search.high
)
SELECT low AS id FROM search WHERE low >= high
