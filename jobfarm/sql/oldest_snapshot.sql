-- Who pins the oldest snapshot: while that transaction is open, no row that died since can be cleaned away. One that has
-- written holds them by its number (backend_xid) as one that reads by its snapshot (backend_xmin), and when it idles it
-- has the number alone.
SELECT pid, coalesce(nullif(application_name, ''), 'an unnamed client') AS client,
       extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds,
       backend_xid IS NOT NULL AND starts_with(state, 'idle in transaction') AS has_written_and_idles,
       extract(epoch FROM clock_timestamp() - state_change)::float8 AS idle_s
FROM pg_stat_activity
WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
ORDER BY greatest(age(backend_xmin), age(backend_xid)) DESC LIMIT 1
