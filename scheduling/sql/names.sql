-- The names of all functions that have rows, by jumping from one to the next in the index (function, id): reading
-- all rows for a few names would take seconds when there are millions.
WITH RECURSIVE names AS (
    (SELECT function FROM scheduling_scheduledfunction ORDER BY function LIMIT 1)
    UNION ALL
    SELECT (SELECT f.function FROM scheduling_scheduledfunction AS f WHERE f.function > names.function
            ORDER BY f.function LIMIT 1)
    FROM names WHERE names.function IS NOT NULL
)
SELECT function FROM names WHERE function IS NOT NULL
