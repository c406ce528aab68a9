-- How many rows of the busiest table are alive and dead, as the statistics have it.
SELECT n_live_tup AS live, n_dead_tup AS dead FROM pg_stat_user_tables WHERE relname = 'jobs_live'
