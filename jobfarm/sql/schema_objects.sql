-- The indexes of this schema's tables, with the columns that they begin with, and its triggers that somebody wrote. One
-- that is not valid is left over from a CREATE INDEX CONCURRENTLY that broke off, and no query uses it.
SELECT 'index' AS what, index.relname AS name, of_table.relname AS of_table, pg_index.indisvalid AS is_whole,
       coalesce((SELECT attname FROM pg_attribute
                 WHERE attrelid = of_table.oid AND attnum = pg_index.indkey[0] AND attnum > 0), '') AS first_column
FROM pg_index
JOIN pg_class AS index ON index.oid = pg_index.indexrelid
JOIN pg_class AS of_table ON of_table.oid = pg_index.indrelid
WHERE of_table.relnamespace = current_schema()::regnamespace
UNION ALL
SELECT 'trigger', tgname, of_table.relname, tgenabled <> 'D', ''
FROM pg_trigger JOIN pg_class AS of_table ON of_table.oid = tgrelid
WHERE of_table.relnamespace = current_schema()::regnamespace AND NOT tgisinternal
