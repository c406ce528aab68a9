-- What Django's models cannot say: early vacuums for the queue, and guards that no caller can forget.
-- Migration 0001 runs this file; from the first release on it is never changed, as the migration is.

-- Rows of the queue live for milliseconds: dead ones pile up at the head of its index, which is where a cluster looks
-- for the next one. Vacuum after a thousand and not after a fifth. A row is inserted and deleted, and changed only when
-- a run came to nothing: no room for new versions (fillfactor). A function's own row is written once more, when it ends.
ALTER TABLE scheduling_due SET (fillfactor = 100, autovacuum_vacuum_scale_factor = 0,
                                autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE scheduling_scheduledfunction SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE scheduling_cluster SET (fillfactor = 50);

-- The WHERE clauses of our statements are the first line; this holds for everybody else, a person at psql included.
CREATE FUNCTION scheduling_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% (scheduled function %, %)', TG_ARGV[0], OLD.id, OLD.status USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER an_ended_function_is_never_changed BEFORE UPDATE ON scheduling_scheduledfunction FOR EACH ROW
WHEN (OLD.ended_at IS NOT NULL AND (OLD.status, OLD.ended_at, OLD.started_at, OLD.function, OLD.attempt)
      IS DISTINCT FROM (NEW.status, NEW.ended_at, NEW.started_at, NEW.function, NEW.attempt))
EXECUTE FUNCTION scheduling_refuse('an ended function is never changed');

CREATE TRIGGER a_live_function_is_never_deleted BEFORE DELETE ON scheduling_scheduledfunction FOR EACH ROW
WHEN (OLD.ended_at IS NULL)
EXECUTE FUNCTION scheduling_refuse('a function that has not ended is never deleted');

-- Reverse
DROP TRIGGER a_live_function_is_never_deleted ON scheduling_scheduledfunction;
DROP TRIGGER an_ended_function_is_never_changed ON scheduling_scheduledfunction;
DROP FUNCTION scheduling_refuse();
