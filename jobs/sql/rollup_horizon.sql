-- Before which moment nothing can be added to what is visible: only a transaction that was open by then could still bring
-- some. One that wrote counts from its beginning, another from its running statement. Two seconds are for what is between a
-- statement's clock and its mention here. It is no snapshot: read it before the jobs, by a statement of its own.
SELECT least(statement_timestamp(), min(CASE WHEN backend_xid IS NOT NULL THEN xact_start
                                             WHEN state = 'active' THEN query_start END))
           - interval '2 seconds' AS horizon,
       statement_timestamp() AS now
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
