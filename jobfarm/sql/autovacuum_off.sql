-- What nobody cleans: 'everything' where autovacuum or the statistics that it goes by are off, else the tables for which
-- it was switched off.
SELECT 'everything' AS name
WHERE NOT (current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean)
UNION ALL
SELECT relname FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
  AND 'autovacuum_enabled=false' = ANY (SELECT lower(option) FROM unnest(reloptions) AS option)
