-- Count a death of the process that ran this mutation or was to start this action, or of its session after %(ran_s)s,
-- and let it wait before its next run, longer each time; not for a session that ended while the server lived on. Of
-- restarts of the server, %(restarts)s are one death. No row: its session has not ended yet and holds the lock, or there
-- is nothing left to run.
UPDATE scheduling_due
SET deaths = deaths + server.weight, next_at = clock_timestamp() + CASE WHEN server.has_ended IS NOT FALSE
    THEN make_interval(secs => %(delay_s)s::float8 * least(2 ^ least(deaths / server.weight, 6), 60)) ELSE '0' END
FROM (SELECT has_ended, CASE WHEN has_ended THEN 1 ELSE %(restarts)s::integer END AS weight
      FROM (SELECT pg_postmaster_start_time() > clock_timestamp() - make_interval(secs => %(ran_s)s::float8)) AS run (has_ended)
     ) AS server
WHERE function_id = (SELECT function_id FROM scheduling_due WHERE function_id = %(id)s::bigint FOR UPDATE SKIP LOCKED)
RETURNING deaths / %(restarts)s::integer AS deaths
