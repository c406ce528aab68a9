-- The attempts of the last so many seconds, by worker: those that run, those that succeeded, which are on the job's row,
-- and those that ended otherwise, which are in the history. Of each `most` at most, the newest; of a worker's that ended
-- otherwise, `most_failed`. Only workers that ran something or called are looked for in the history, by its index.
WITH since (at) AS (
    SELECT statement_timestamp() - make_interval(secs => %(seconds)s::float8)
), running AS MATERIALIZED (
    SELECT id, kind, worker_id, worker_name, claimed_at FROM jobs_job
    WHERE status = 'in_progress' ORDER BY worker_id, id LIMIT %(most)s::bigint
), ended AS MATERIALIZED (
    SELECT id, kind, status, worker_id, worker_name, claimed_at, ended_at FROM jobs_job
    WHERE ended_at > (SELECT at FROM since) ORDER BY ended_at DESC, id DESC LIMIT %(most)s::bigint
), worker AS MATERIALIZED (
    SELECT worker_id AS id FROM running UNION SELECT worker_id FROM ended WHERE worker_id IS NOT NULL
    UNION (SELECT id FROM jobs_worker WHERE last_seen_at > (SELECT at FROM since)
           ORDER BY last_seen_at DESC LIMIT %(most_workers)s::bigint)
)
SELECT running.id AS job_id, running.kind, running.worker_id, running.worker_name, running.claimed_at,
       NULL::timestamptz AS ended_at, 'in_progress' AS outcome
FROM running
UNION ALL
SELECT ended.id, ended.kind, ended.worker_id, ended.worker_name, ended.claimed_at, ended.ended_at, 'success'
FROM ended WHERE ended.status = 'success' AND ended.worker_id IS NOT NULL AND ended.claimed_at IS NOT NULL
UNION ALL
SELECT attempt.job_id, job.kind, worker.id, attempt.worker_name, attempt.claimed_at, attempt.ended_at, attempt.outcome
FROM worker CROSS JOIN LATERAL (
    SELECT job_id, worker_name, claimed_at, ended_at, outcome FROM jobs_attempt
    WHERE worker_id = worker.id AND ended_at > (SELECT at FROM since)
    ORDER BY ended_at DESC LIMIT %(most_failed)s::bigint) AS attempt
JOIN jobs_job AS job ON job.id = attempt.job_id
