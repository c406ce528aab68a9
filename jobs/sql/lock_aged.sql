-- Lock some jobs, the first of each lane, that have been due for so long that they count for more than their lane does
-- (Queue.ages_after), where something more urgent waits. How long a job waits begins when it was submitted, whatever run_at
-- it named.
WITH waiting AS MATERIALIZED (
    SELECT DISTINCT one.job_id AS id
    FROM jobs_queue AS queue CROSS JOIN LATERAL (
        SELECT mark.priority FROM jobs_mark AS mark WHERE mark.queue = queue.name
        ORDER BY mark.priority DESC LIMIT 1) AS highest
    JOIN jobs_mark AS mark ON mark.queue = queue.name AND mark.priority < highest.priority
    JOIN jobs_lane AS lane ON lane.id = mark.lane_id CROSS JOIN LATERAL (
        SELECT job.job_id FROM jobs_live AS job JOIN jobs_job AS record ON record.id = job.job_id
        WHERE job.lease_secret IS NULL AND job.lane_id = lane.id AND job.run_at >= mark.at
          AND job.run_at <= statement_timestamp() - make_interval(secs => queue.ages_after::float8 * (lane.raised + 1))
          AND jobs_raise(queue.name, record.priority, greatest(job.run_at, record.created_at)) > lane.raised
          AND job.job_id <> ALL (%(but_for)s::bigint[])
        ORDER BY job.run_at, job.job_id LIMIT %(limit)s::bigint) AS one
    WHERE queue.ages_after IS NOT NULL
    LIMIT %(limit)s::bigint
)
SELECT job.job_id AS id, job.kind, job.queue
FROM (SELECT waiting.id FROM waiting ORDER BY waiting.id) AS chosen
CROSS JOIN LATERAL (
    SELECT one.* FROM jobs_live AS one WHERE one.job_id = chosen.id FOR UPDATE SKIP LOCKED) AS job
WHERE job.lease_secret IS NULL
