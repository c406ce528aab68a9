-- Count the waiting jobs of every owner and of the farm (0), from indexes alone.
WITH counted AS (
    SELECT owner_id, count(*) AS waiting FROM jobs_live
    WHERE lease_secret IS NULL AND owner_id IS NOT NULL GROUP BY owner_id
    UNION ALL
    SELECT 0, count(*) FROM jobs_live WHERE lease_secret IS NULL
), none_left AS (
    UPDATE jobs_usage SET waiting = 0
    WHERE waiting <> 0 AND owner_id NOT IN (SELECT owner_id FROM counted)
)
INSERT INTO jobs_usage AS kept (owner_id, waiting, waiting_at)
SELECT owner_id, waiting, CASE WHEN owner_id = 0 THEN statement_timestamp() END FROM counted
ON CONFLICT (owner_id) DO UPDATE SET waiting = excluded.waiting, waiting_at = excluded.waiting_at
WHERE kept.owner_id = 0 OR kept.waiting <> excluded.waiting
