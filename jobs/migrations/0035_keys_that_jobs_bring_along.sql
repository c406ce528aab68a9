-- A job that moves to another queue has its key there, if that is a queue's. The queue's row is locked for it, as by a submit:
-- who sets a bound waits, and finds the key. Migration 0035 runs this file.
CREATE OR REPLACE FUNCTION jobs_key_in(key integer, of_queue text) RETURNS integer LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moved integer := key;
    known jobs_concurrencykey;
BEGIN
    SELECT * INTO known FROM jobs_concurrencykey AS one WHERE one.id = key;
    IF known.queue <> '' AND known.queue <> of_queue THEN
        INSERT INTO jobs_concurrencykey (kind, queue, name, bound)
        SELECT '', of_queue, known.name, (SELECT queue.of_key FROM jobs_queue AS queue WHERE queue.name = of_queue FOR KEY SHARE)
        ON CONFLICT (kind, queue, name) DO UPDATE SET used_at = statement_timestamp() RETURNING id INTO moved;
    END IF;
    RETURN moved;
END $$;

-- Reverse
SELECT 1;
