-- The limits that have rows, by jumping from one name to the next in the unique index: keys may be millions.
WITH RECURSIVE names AS (
    (SELECT name FROM ratelimits_bucket ORDER BY name LIMIT 1)
    UNION ALL
    SELECT (SELECT b.name FROM ratelimits_bucket AS b WHERE b.name > names.name ORDER BY b.name LIMIT 1)
    FROM names WHERE names.name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL
