-- How each of these workers did lately: how many jobs it ended, and an hour; how many of them with success, or canceled; how
-- long those that were not canceled ran on average; and its last jobs. Lately is `since` so many seconds ago, or as far back
-- as the newest ended jobs of the farm reach that are read at most.
WITH lately AS MATERIALIZED (
    SELECT job_id, worker_id, status, ended_at, ended_at - claimed_at AS ran FROM jobs_outcome
    WHERE ended_at > statement_timestamp() - make_interval(secs => %(seconds)s::float8)
    ORDER BY ended_at DESC, job_id DESC LIMIT %(most)s::bigint
), reach AS (
    SELECT CASE WHEN count(*) < %(most)s::bigint THEN statement_timestamp() - make_interval(secs => %(seconds)s::float8)
                ELSE min(ended_at) END AS since
    FROM lately
)
SELECT id AS worker_id, since, count(job_id) AS ended, count(*) FILTER (WHERE status = 'success') AS succeeded,
       count(*) FILTER (WHERE status = 'canceled') AS canceled,
       (count(job_id) * 3600 / greatest(extract(epoch FROM statement_timestamp() - since), 1))::float8 AS per_hour,
       extract(epoch FROM avg(ran) FILTER (WHERE status <> 'canceled'))::float8 AS run_s,
       (array_agg(job_id ORDER BY ended_at DESC, job_id DESC))[:%(listed)s::integer] AS jobs
FROM unnest(%(workers)s::bigint[]) AS worker (id) CROSS JOIN reach LEFT JOIN lately ON worker_id = id GROUP BY id, since
