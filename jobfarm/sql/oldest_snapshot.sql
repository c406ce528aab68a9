-- Who pins the oldest snapshot: while that transaction is open, no row that died since can be cleaned away.
SELECT pid, coalesce(nullif(application_name, ''), 'an unnamed client') AS client,
       extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds
FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
ORDER BY age(backend_xmin) DESC LIMIT 1
