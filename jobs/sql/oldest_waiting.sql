-- For each queue with jobs that are due: since how many seconds the one that waits longest has been. Nothing in a lane has
-- waited longer than its mark says: of each queue the 32 lanes with the first marks are looked at.
SELECT lane.queue, extract(epoch FROM statement_timestamp() - min(head.run_at))::float8 AS oldest_s
FROM (SELECT queue, lane_id, min(at) AS at, row_number() OVER (PARTITION BY queue ORDER BY min(at)) AS place
      FROM jobs_mark WHERE at <= statement_timestamp() GROUP BY queue, lane_id) AS lane
CROSS JOIN LATERAL (
    SELECT job.run_at FROM jobs_live AS job
    WHERE job.lease_secret IS NULL AND job.lane_id = lane.lane_id AND job.run_at >= lane.at
      AND job.run_at <= statement_timestamp()
    ORDER BY job.run_at, job.job_id LIMIT 1) AS head
WHERE lane.place <= 32 GROUP BY lane.queue
