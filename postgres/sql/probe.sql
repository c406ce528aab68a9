-- A write that leaves nothing behind: half a megabyte of a sort on the disk of the data, which is refused where that is
-- full, and a record in the write-ahead log whose commit waits for disk and synchronous standby as every other does. A
-- row would not show a full disk: its update finds room in its own page. Where sorts may have no files that is no fault.
SET work_mem = '64kB';
DO $$
BEGIN
    IF pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean THEN
        RAISE read_only_sql_transaction;
    END IF;
    BEGIN
        PERFORM count(*) FROM (
            SELECT repeat('x', 200), n FROM generate_series(1, 2000) AS n ORDER BY 1, n OFFSET 0) AS spilt;
    EXCEPTION WHEN configuration_limit_exceeded THEN
        NULL;
    END;
    PERFORM pg_logical_emit_message(true, 'jobfarm', 'probe');
END
$$
