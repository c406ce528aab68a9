-- Add the deltas to the rows of their owners and of the farm (0), and delete them. The caller holds the lock of
-- measuring: of two folds at once the second would wait for the first, and find nothing.
WITH gone AS (
    DELETE FROM jobs_usagedelta RETURNING owner_id, output_bytes, files, file_bytes
)
INSERT INTO jobs_usage AS kept (owner_id, output_bytes, files, file_bytes)
SELECT coalesce(owner_id, 0), coalesce(sum(output_bytes), 0), coalesce(sum(files), 0), coalesce(sum(file_bytes), 0)
FROM gone GROUP BY GROUPING SETS ((owner_id), ()) HAVING grouping(owner_id) = 1 OR owner_id IS NOT NULL
ON CONFLICT (owner_id) DO UPDATE
SET output_bytes = kept.output_bytes + excluded.output_bytes, files = kept.files + excluded.files,
    file_bytes = kept.file_bytes + excluded.file_bytes
