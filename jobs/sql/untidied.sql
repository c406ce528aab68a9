-- For the doctor: how many lanes are awake in which nothing waits, although something was due in them a minute ago or
-- before; of so many lanes at most.
SELECT count(*) AS lanes
FROM (SELECT lane_id, min(at) AS at FROM jobs_mark WHERE at < statement_timestamp() - interval '1 minute'
      GROUP BY lane_id LIMIT %(limit)s::bigint) AS awake
WHERE (SELECT job.job_id FROM jobs_live AS job
       WHERE job.lease_secret IS NULL AND job.lane_id = awake.lane_id AND job.run_at >= awake.at
       ORDER BY job.run_at, job.job_id LIMIT 1) IS NULL
