-- Jobs whose rows say what cannot be, for the doctor: what no CHECK asks in each statement (docs/adr/0037), and whether each
-- is in one place: a record has a live row exactly until it has an outcome. Reads the whole tables.
SELECT coalesce(job.id, live.job_id, outcome.job_id) AS id, fault.what
FROM jobs_job AS job
FULL JOIN jobs_live AS live ON live.job_id = job.id
FULL JOIN jobs_outcome AS outcome ON outcome.job_id = coalesce(job.id, live.job_id)
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN job.id IS NULL THEN 'has no record'
        WHEN live.job_id IS NULL AND outcome.job_id IS NULL THEN 'neither lives nor has ended'
        WHEN live.job_id IS NOT NULL AND outcome.job_id IS NOT NULL THEN 'lives and has ended'
        WHEN NOT coalesce(coalesce(live.progress, outcome.progress) BETWEEN 0 AND 1, true)
            THEN 'has a progress that is no share from 0 to 1'
        WHEN job.max_attempts < 1 OR NOT coalesce(live.failures, outcome.failures) BETWEEN 0 AND job.max_attempts
            THEN 'has failed more often than it may be tried'
        WHEN (job.limit_name IS NULL) <> (job.limit_count IS NULL) OR job.limit_count <= 0
            OR job.limit_name IS NULL AND (job.limit_key IS NOT NULL OR job.limit_until IS NOT NULL)
            THEN 'does not say how much it took of its limit'
        WHEN live.job_id IS NOT NULL AND (live.queue, live.owner_id, live.group_id, live.requirement_id, live.kind)
                IS DISTINCT FROM (job.queue, job.owner_id, job.group_id, job.requirement_id, job.kind)
            THEN 'has a live row that says otherwise than its record'
        WHEN live.has_key <> EXISTS (SELECT FROM jobs_uniquekey AS living WHERE living.job_id = live.job_id)
            THEN 'has not the key that it should have'
        WHEN live.job_id IS NOT NULL AND live.lease_secret IS NULL AND NOT EXISTS (
            SELECT FROM jobs_mark AS mark WHERE mark.lane_id = live.lane_id AND mark.at <= live.run_at)
            THEN 'waits where no claim looks'
        END AS what) AS fault
WHERE fault.what IS NOT NULL
ORDER BY 1 LIMIT %(limit)s::bigint
