-- The attempts of the last so many seconds, by worker: those that run, that succeeded (outcomes), and that ended otherwise
-- (attempts). Of each `most` at most, the newest; successes among the newest `most_ended` jobs that ended, others among the
-- newest `most_failed` of each worker that ran something or called. `complete`: none of these bounds was reached.
WITH since (at) AS (
    SELECT statement_timestamp() - make_interval(secs => %(seconds)s::float8)
), running AS MATERIALIZED (
    SELECT job_id AS id, kind, worker_id, worker_name, claimed_at FROM jobs_live
    WHERE lease_secret IS NOT NULL ORDER BY job_id DESC LIMIT %(most)s::bigint
), ended AS MATERIALIZED (
    SELECT job_id AS id, kind, status, worker_id, worker_name, claimed_at, ended_at FROM jobs_outcome
    WHERE ended_at > (SELECT at FROM since) ORDER BY ended_at DESC, job_id DESC LIMIT %(most_ended)s::bigint
), success AS MATERIALIZED (
    SELECT * FROM ended WHERE status = 'success' AND worker_id IS NOT NULL AND claimed_at IS NOT NULL
    ORDER BY ended_at DESC, id DESC LIMIT %(most)s::bigint
), worker AS MATERIALIZED (
    SELECT worker_id AS id FROM running UNION SELECT worker_id FROM ended WHERE worker_id IS NOT NULL
    UNION (SELECT id FROM jobs_worker WHERE last_seen_at > (SELECT at FROM since)
           ORDER BY last_seen_at DESC LIMIT %(most_workers)s::bigint)
), other AS MATERIALIZED (
    SELECT attempt.*, worker.id AS worker_id FROM worker CROSS JOIN LATERAL (
        SELECT job_id, worker_name, claimed_at, ended_at, outcome FROM jobs_attempt
        WHERE worker_id = worker.id AND ended_at > (SELECT at FROM since)
        ORDER BY ended_at DESC LIMIT %(most_failed)s::bigint) AS attempt
    ORDER BY ended_at DESC LIMIT %(most)s::bigint
), bound (complete) AS (
    SELECT (SELECT count(*) FROM running) < %(most)s::bigint AND (SELECT count(*) FROM ended) < %(most_ended)s::bigint
        AND (SELECT count(*) FROM success) < %(most)s::bigint AND (SELECT count(*) FROM other) < %(most)s::bigint
        AND (SELECT count(*) FROM other GROUP BY worker_id ORDER BY 1 DESC LIMIT 1) IS DISTINCT FROM %(most_failed)s::bigint
)
SELECT id AS job_id, kind, worker_id, worker_name, claimed_at, NULL::timestamptz AS ended_at, 'in_progress' AS outcome,
       complete
FROM running, bound
UNION ALL
SELECT id, kind, worker_id, worker_name, claimed_at, ended_at, 'success', complete FROM success, bound
UNION ALL
SELECT job_id, (SELECT kind FROM jobs_job WHERE id = other.job_id), worker_id, worker_name, claimed_at, ended_at, outcome,
       complete
FROM other, bound
