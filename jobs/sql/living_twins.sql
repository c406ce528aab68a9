-- Of each job that could not be stored the living one with the same owner, kind and unique_key, and the one that waits behind it; no row if it has ended.
-- A statement of its own, for one that was committed while the insert ran is not in the insert's snapshot. In two
-- halves, for IS NOT DISTINCT FROM is no condition of an index, and many owners may have the same key.
WITH new_job AS MATERIALIZED (
    SELECT * FROM unnest(%(owner_id)s::integer[], %(kind)s::text[], %(unique_key)s::text[])
    WITH ORDINALITY AS r (owner_id, kind, unique_key, place)
)
SELECT new_job.place, living.job_id AS id, living.follower_id
FROM new_job JOIN jobs_uniquekey AS living USING (kind, unique_key, owner_id)
UNION ALL
SELECT new_job.place, living.job_id, living.follower_id
FROM new_job JOIN jobs_uniquekey AS living USING (kind, unique_key)
WHERE new_job.owner_id IS NULL AND living.owner_id IS NULL
