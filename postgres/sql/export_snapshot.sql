-- The name under which other sessions read as of the moment of this transaction, which may be idle for as long as they
-- take.
SELECT pg_export_snapshot() AS name, set_config('idle_in_transaction_session_timeout', '0', true)
