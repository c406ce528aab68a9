-- What the jobs of these owners keep now (0: all jobs): the last fold, and what changed since. One snapshot has both,
-- so that a fold in between counts nothing twice. `counted_ago_s`: since when waiting jobs were counted, null if never.
SELECT owner.owner_id,
       coalesce(stored.waiting, 0) AS waiting,
       coalesce(stored.output_bytes, 0) + coalesce(since.output_bytes, 0)::bigint AS output_bytes,
       coalesce(stored.files, 0) + coalesce(since.files, 0)::bigint AS files,
       coalesce(stored.file_bytes, 0) + coalesce(since.file_bytes, 0)::bigint AS file_bytes,
       extract(epoch FROM statement_timestamp() - farm.waiting_at)::float8 AS counted_ago_s
FROM unnest(%(owners)s::integer[]) AS owner (owner_id)
LEFT JOIN jobs_usage AS stored ON stored.owner_id = owner.owner_id
LEFT JOIN jobs_usage AS farm ON farm.owner_id = 0
CROSS JOIN LATERAL (
    SELECT sum(output_bytes) AS output_bytes, sum(files) AS files, sum(file_bytes) AS file_bytes
    FROM (SELECT output_bytes, files, file_bytes FROM jobs_usagedelta WHERE owner.owner_id = 0
          UNION ALL
          SELECT output_bytes, files, file_bytes FROM jobs_usagedelta WHERE owner_id = owner.owner_id) AS delta
) AS since
