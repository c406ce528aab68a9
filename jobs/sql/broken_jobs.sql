-- Jobs whose rows say what no CHECK asks in each statement (docs/adr/0037), for the doctor; and those that are not in one
-- place: a record has a live row exactly until it has an outcome. Reads the whole tables.
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
        WHEN live.has_key <> (EXISTS (SELECT FROM jobs_uniquekey AS living WHERE living.job_id = live.job_id)
                              OR EXISTS (SELECT FROM jobs_uniquekey AS living WHERE living.follower_id = live.job_id))
            THEN 'has not the key that it should have'
        WHEN live.lease_secret IS NULL AND (live.run_at = '9000-01-01 00:00:00+00') <> (
                EXISTS (SELECT FROM jobs_uniquekey AS living WHERE living.follower_id = live.job_id)
                OR live.fence > 0 AND EXISTS (
                    SELECT FROM jobs_suspension AS wait
                    WHERE wait.job_id = live.job_id AND wait.signal <> '' AND wait.taken_id IS NULL AND NOT wait.timed_out)
                OR live.in_flow AND EXISTS (
                    SELECT FROM jobs_edge AS open JOIN jobs_live AS before ON before.job_id = open.after_id
                    WHERE open.open_of = live.job_id)
                OR live.in_flow AND live.run_at = '9000-01-01 00:00:00+00' AND EXISTS (  -- about to be let go
                    SELECT FROM jobs_edge AS edge JOIN jobs_endedstep AS note ON note.job_id = edge.after_id
                    WHERE edge.job_id = live.job_id))
            THEN 'waits behind no job, or not as one that does'
        WHEN live.job_id IS NOT NULL AND live.lease_secret IS NULL AND NOT EXISTS (
            SELECT FROM jobs_mark AS mark WHERE mark.lane_id = live.lane_id AND mark.at <= live.run_at) AND NOT EXISTS (
            SELECT FROM jobs_lane AS lane JOIN jobs_pausedowner AS paused ON paused.owner_id = lane.held_for
            WHERE lane.id = live.lane_id)
            THEN 'waits where no claim looks'
        END AS what) AS fault
WHERE fault.what IS NOT NULL
ORDER BY 1 LIMIT %(limit)s::bigint
