-- How a worker did lately: since when, how many of its jobs succeeded and how many of its attempts failed, were lost or
-- timed out since then, and its last jobs. Lately is within a day, and as far back as the newest ended jobs of the farm
-- reach that are read at most.
WITH lately AS MATERIALIZED (
    SELECT job_id AS id, worker_id, status, ended_at FROM jobs_outcome
    WHERE ended_at > statement_timestamp() - interval '1 day'
    ORDER BY ended_at DESC, job_id DESC LIMIT %(most)s::bigint
), reach AS MATERIALIZED (
    SELECT CASE WHEN count(*) < %(most)s::bigint THEN statement_timestamp() - interval '1 day'
                ELSE min(ended_at) END AS since
    FROM lately
)
SELECT reach.since,
       (SELECT count(*) FROM lately WHERE worker_id = %(worker)s::bigint AND status = 'success') AS succeeded,
       (SELECT count(*) FROM (
            SELECT outcome FROM jobs_attempt
            WHERE worker_id = %(worker)s::bigint AND ended_at >= reach.since
            ORDER BY ended_at DESC LIMIT %(most)s::bigint) AS attempt
        WHERE outcome NOT IN ('released', 'unconfirmed', 'canceled')) AS failed,
       ARRAY(SELECT id FROM lately WHERE worker_id = %(worker)s::bigint
             ORDER BY ended_at DESC, id DESC LIMIT %(listed)s::bigint) AS jobs
FROM reach
