-- How each worker did between two moments: attempts that ended, how many with success, and how long they ran. What it
-- gave back and what people canceled is no failure of its. Its backlog is what it holds now.
WITH runs AS MATERIALIZED (
    SELECT worker_id, ended_at - claimed_at AS took, true AS succeeded FROM jobs_outcome
    WHERE ended_at >= %(start)s AND ended_at < %(stop)s AND status = 'success' AND worker_id IS NOT NULL
    UNION ALL
    SELECT worker_id, ended_at - claimed_at, false FROM jobs_attempt
    WHERE ended_at >= %(start)s AND ended_at < %(stop)s AND outcome NOT IN ('released', 'unconfirmed', 'suspended', 'canceled')
), ended AS MATERIALIZED (
    SELECT worker_id, count(*) AS ended, count(*) FILTER (WHERE succeeded) AS succeeded,
           percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY extract(epoch FROM took)::float8) AS latency_s
    FROM runs GROUP BY worker_id
), held AS MATERIALIZED (
    SELECT worker_id, count(*) AS backlog FROM jobs_live WHERE lease_secret IS NOT NULL GROUP BY worker_id
)
SELECT worker.name || ' #' || worker.id AS name, coalesce(ended.ended, 0) AS ended, coalesce(ended.succeeded, 0) AS succeeded,
       ended.latency_s[1] AS latency_p50_s, ended.latency_s[2] AS latency_p95_s, coalesce(held.backlog, 0) AS backlog
FROM jobs_worker AS worker LEFT JOIN ended ON ended.worker_id = worker.id LEFT JOIN held ON held.worker_id = worker.id
WHERE worker.revoked_at IS NULL OR ended.ended > 0
ORDER BY worker.id
