-- Take the marks of lanes away whose owner is paused, and give those of owners that no longer are the mark of what waits in
-- them. Which queues something waits in now that a claim may find.
WITH gone AS (
    DELETE FROM jobs_mark WHERE lane_id IN (
        SELECT lane.id FROM jobs_pausedowner AS paused JOIN jobs_lane AS lane ON lane.held_for = paused.owner_id)
), hidden AS MATERIALIZED (
    SELECT lane.id, lane.queue, first.run_at FROM jobs_lane AS lane CROSS JOIN LATERAL (
        SELECT job.run_at FROM jobs_live AS job
        WHERE job.lease_secret IS NULL AND job.lane_id = lane.id ORDER BY job.run_at, job.job_id LIMIT 1) AS first
    WHERE lane.held_for <> 0 AND NOT EXISTS (SELECT FROM jobs_pausedowner AS paused WHERE paused.owner_id = lane.held_for)
      AND NOT EXISTS (SELECT FROM jobs_mark AS mark WHERE mark.lane_id = lane.id AND mark.at <= first.run_at)
    ORDER BY lane.id
)
SELECT DISTINCT queue FROM (SELECT queue, jobs_wake(id, run_at) AS is_awake FROM hidden) AS woken WHERE is_awake
