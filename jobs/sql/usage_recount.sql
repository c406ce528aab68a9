-- Count all that jobs keep anew, in place of what was folded. One statement is one snapshot: the deltas that it deletes
-- are of the transactions whose rows it counts, and those of later ones stay. Returns the rows that were wrong, with
-- what had been counted.
WITH gone AS (
    DELETE FROM jobs_usagedelta RETURNING owner_id, output_bytes, files, file_bytes
), since AS (
    SELECT CASE WHEN grouping(owner_id) = 1 THEN 0 ELSE owner_id END AS owner_id,
           sum(output_bytes) AS output_bytes, sum(files) AS files, sum(file_bytes) AS file_bytes
    FROM gone GROUP BY GROUPING SETS ((owner_id), ()) HAVING grouping(owner_id) = 1 OR owner_id IS NOT NULL
), kept AS (
    SELECT owner_id, jobs_kept_output(earlier_output_bytes, output_bytes, lease_secret) AS output_bytes,
           0 AS files, 0 AS file_bytes
    FROM jobs_live WHERE output_bytes > 0 OR earlier_output_bytes > 0
    UNION ALL
    SELECT job.owner_id, outcome.earlier_output_bytes + outcome.output_bytes, 0, 0
    FROM jobs_outcome AS outcome JOIN jobs_job AS job ON job.id = outcome.job_id
    WHERE outcome.output_bytes > 0 OR outcome.earlier_output_bytes > 0
    UNION ALL
    SELECT job.owner_id, 0, 1, file.size FROM jobs_resultfile AS file JOIN jobs_job AS job ON job.id = file.job_id
    UNION ALL
    SELECT owner_id, 0, 1, size FROM jobs_upload
), fresh AS (
    SELECT CASE WHEN grouping(owner_id) = 1 THEN 0 ELSE owner_id END AS owner_id,
           coalesce(sum(output_bytes), 0) AS output_bytes, coalesce(sum(files), 0) AS files,
           coalesce(sum(file_bytes), 0) AS file_bytes
    FROM kept GROUP BY GROUPING SETS ((owner_id), ()) HAVING grouping(owner_id) = 1 OR owner_id IS NOT NULL
), compared AS (
    SELECT owner_id, coalesce(fresh.output_bytes, 0) AS output_bytes, coalesce(fresh.files, 0) AS files,
           coalesce(fresh.file_bytes, 0) AS file_bytes,
           coalesce(before.output_bytes, 0) + coalesce(since.output_bytes, 0) AS counted_output_bytes,
           coalesce(before.files, 0) + coalesce(since.files, 0) AS counted_files,
           coalesce(before.file_bytes, 0) + coalesce(since.file_bytes, 0) AS counted_file_bytes
    FROM fresh FULL JOIN jobs_usage AS before USING (owner_id) FULL JOIN since USING (owner_id)
), written AS (
    INSERT INTO jobs_usage (owner_id, output_bytes, files, file_bytes, recounted_at)
    SELECT owner_id, output_bytes, files, file_bytes, CASE WHEN owner_id = 0 THEN statement_timestamp() END
    FROM compared
    ON CONFLICT (owner_id) DO UPDATE
    SET output_bytes = excluded.output_bytes, files = excluded.files, file_bytes = excluded.file_bytes,
        recounted_at = excluded.recounted_at
)
SELECT owner_id, output_bytes::bigint, files::bigint, file_bytes::bigint,
       counted_output_bytes::bigint, counted_files::bigint, counted_file_bytes::bigint
FROM compared
WHERE (output_bytes, files, file_bytes) <> (counted_output_bytes, counted_files, counted_file_bytes)
ORDER BY owner_id
