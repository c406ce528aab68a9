-- Of each worker how many jobs an hour it ended, and of those that were not canceled which share failed and how long they
-- ran on average, by the jobs of the last hour, or of as long as the newest ones reach back that are read at most.
WITH lately AS MATERIALIZED (
    SELECT worker_id, ended_at, claimed_at, status FROM jobs_outcome
    WHERE ended_at > statement_timestamp() - interval '1 hour'
    ORDER BY ended_at DESC, job_id DESC LIMIT %(most)s::bigint
), reach AS (
    SELECT CASE WHEN count(*) < %(most)s::bigint THEN 3600.0
                ELSE greatest(extract(epoch FROM statement_timestamp() - min(ended_at)), 1) END::float8 AS seconds
    FROM lately
)
SELECT worker_id, (count(*) * 3600 / min(reach.seconds))::float8 AS per_hour,
       (avg((status <> 'success')::int) FILTER (WHERE status <> 'canceled'))::float8 AS failed,
       (avg(extract(epoch FROM ended_at - claimed_at)) FILTER (WHERE status <> 'canceled'))::float8 AS run_s
FROM lately CROSS JOIN reach WHERE worker_id = ANY (%(workers)s::bigint[]) GROUP BY worker_id
