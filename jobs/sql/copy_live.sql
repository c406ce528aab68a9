-- The live rows of copy_jobs.sql.
COPY jobs_live ({of_live}, job_id, run_at, expires_at, lane_id) FROM STDIN
