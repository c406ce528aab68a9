-- Count all that jobs keep anew, in place of what was folded: the rows themselves, less the deltas that are still to be
-- folded. One statement is one snapshot, so each delta in it is of a row in it. The caller holds the lock of measuring.
-- Returns the rows that were wrong, with what had been counted.
WITH kept AS (
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
    UNION ALL
    SELECT owner_id, -output_bytes, -files, -file_bytes FROM jobs_usagedelta
), fresh AS (
    SELECT coalesce(owner_id, 0) AS owner_id, sum(output_bytes) AS output_bytes, sum(files) AS files,
           sum(file_bytes) AS file_bytes
    FROM kept GROUP BY GROUPING SETS ((owner_id), ()) HAVING grouping(owner_id) = 1 OR owner_id IS NOT NULL
), compared AS (
    SELECT owner_id, coalesce(fresh.output_bytes, 0)::bigint AS output_bytes, coalesce(fresh.files, 0)::bigint AS files,
           coalesce(fresh.file_bytes, 0)::bigint AS file_bytes, coalesce(before.output_bytes, 0) AS counted_output_bytes,
           coalesce(before.files, 0) AS counted_files, coalesce(before.file_bytes, 0) AS counted_file_bytes
    FROM fresh FULL JOIN jobs_usage AS before USING (owner_id)
), written AS (
    INSERT INTO jobs_usage (owner_id, output_bytes, files, file_bytes, recounted_at)
    SELECT owner_id, output_bytes, files, file_bytes, CASE WHEN owner_id = 0 THEN statement_timestamp() END FROM compared
    ON CONFLICT (owner_id) DO UPDATE SET output_bytes = excluded.output_bytes, files = excluded.files,
        file_bytes = excluded.file_bytes, recounted_at = excluded.recounted_at
)
SELECT * FROM compared
WHERE (output_bytes, files, file_bytes) <> (counted_output_bytes, counted_files, counted_file_bytes) ORDER BY owner_id
