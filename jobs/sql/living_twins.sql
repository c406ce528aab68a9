-- Of each job that could not be stored the living one with the same owner, kind and unique_key; no row if it has ended.
-- A statement of its own, for one that was committed while the insert ran is not in the insert's snapshot. In two
-- halves, for IS NOT DISTINCT FROM is no condition of an index, and many owners may have the same key.
WITH new_job AS MATERIALIZED (
    SELECT * FROM unnest(%(owner_id)s::integer[], %(kind)s::text[], %(unique_key)s::text[])
    WITH ORDINALITY AS r (owner_id, kind, unique_key, place)
)
SELECT new_job.place, job.id
FROM new_job JOIN jobs_job AS job USING (kind, unique_key, owner_id)
WHERE job.status IN ('in_progress', 'pending') AND job.unique_key IS NOT NULL
UNION ALL
SELECT new_job.place, job.id
FROM new_job JOIN jobs_job AS job USING (kind, unique_key)
WHERE new_job.owner_id IS NULL AND job.owner_id IS NULL
  AND job.status IN ('in_progress', 'pending') AND job.unique_key IS NOT NULL
