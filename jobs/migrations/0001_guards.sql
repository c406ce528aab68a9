-- What Django's models cannot say of jobs: room for HOT updates, early vacuums, and guards that no caller can forget.
-- Migration 0001 runs this file; from the first release on it is never changed, as the migration is.

-- A live row is rewritten at claim, at each heartbeat and at a retry, and deleted at the end: room for that on each page,
-- so that heartbeats stay on theirs (HOT), and vacuum at 1 % dead rows. Records and outcomes only grow.
ALTER TABLE jobs_live SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
                           autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE jobs_job SET (autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE jobs_outcome SET (autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE jobs_worker SET (fillfactor = 50);

-- The WHERE clauses of our statements are the first line (docs/promises.md); the guards hold for everybody else, a person
-- at psql included. enable_seqscan: each session keeps its plans, and those made of empty tables would read whole ones.
CREATE FUNCTION jobs_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% (job %)', TG_ARGV[0], OLD.job_id USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER an_ended_job_is_never_changed BEFORE UPDATE ON jobs_outcome FOR EACH ROW
EXECUTE FUNCTION jobs_refuse('an ended job is never changed');

-- A live row goes by the end of its job alone: whoever deletes it writes the outcome in the same statement. This looks once
-- at all that a statement deleted.
CREATE FUNCTION jobs_keep_live() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    lost bigint;
BEGIN
    SELECT gone.job_id INTO lost FROM gone
    WHERE NOT EXISTS (SELECT FROM jobs_outcome AS outcome WHERE outcome.job_id = gone.job_id) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a job that has not ended is never deleted (job %)', lost USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER a_live_job_is_never_deleted AFTER DELETE ON jobs_live REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION jobs_keep_live();

-- A record. What it is to do is never changed, and nothing else once it has ended but whom it belongs to, who may go away;
-- what later migrations add is guarded too. This is not on the way of a job: who updates a record is a person.
CREATE FUNCTION jobs_keep_record() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    may_go CONSTANT text[] := ARRAY['owner_id', 'group_id', 'retry_of_id'];
BEGIN
    IF to_jsonb(OLD) - may_go IS DISTINCT FROM to_jsonb(NEW) - may_go
       AND EXISTS (SELECT FROM jobs_outcome AS outcome WHERE outcome.job_id = OLD.id) THEN
        RAISE EXCEPTION 'an ended job is never changed (job %)', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    IF (OLD.id, OLD.kind, OLD.payload, OLD.traceparent) IS DISTINCT FROM (NEW.id, NEW.kind, NEW.payload, NEW.traceparent) THEN
        RAISE EXCEPTION 'a payload is never changed (job %)', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER a_record_is_kept BEFORE UPDATE ON jobs_job FOR EACH ROW EXECUTE FUNCTION jobs_keep_record();

-- A record is deleted with its outcome, and what it wrote is taken off its owner's usage (0001_usage.sql).
CREATE FUNCTION jobs_delete_record() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    freed bigint;
BEGIN
    IF EXISTS (SELECT FROM jobs_live AS live WHERE live.job_id = OLD.id) THEN
        RAISE EXCEPTION 'a job that has not ended is never deleted (job %)', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    DELETE FROM jobs_outcome AS outcome WHERE outcome.job_id = OLD.id
    RETURNING outcome.earlier_output_bytes + outcome.output_bytes INTO freed;
    IF freed > 0 THEN
        INSERT INTO jobs_usagedelta (owner_id, output_bytes) VALUES (OLD.owner_id, -freed);
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER a_record_goes_with_its_outcome BEFORE DELETE ON jobs_job FOR EACH ROW EXECUTE FUNCTION jobs_delete_record();

-- An outcome goes with its record, not alone: it is looked for when the transaction ends, for the record goes afterwards.
CREATE FUNCTION jobs_keep_outcome() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    IF EXISTS (SELECT FROM jobs_job WHERE id = OLD.job_id) THEN
        RAISE EXCEPTION 'an outcome goes with its job (job %)', OLD.job_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER an_outcome_goes_with_its_job AFTER DELETE ON jobs_outcome
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION jobs_keep_outcome();

-- The key of a living job goes with its live row.
CREATE FUNCTION jobs_free_key() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM jobs_uniquekey WHERE job_id = OLD.job_id;
    RETURN NULL;
END $$;
CREATE TRIGGER a_key_is_free_when_its_job_ends AFTER DELETE ON jobs_live FOR EACH ROW
WHEN (OLD.has_key) EXECUTE FUNCTION jobs_free_key();

-- A job comes to have no owner when its owner is deleted. Those without one share a space of keys, the site's own: two
-- people with the same key could not both be deleted, and what the site submits would be refused for a stranger's job
-- (docs/adr/0049).
CREATE FUNCTION jobs_forget_key() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE jobs_live SET has_key = false WHERE job_id = OLD.id AND has_key;
    IF FOUND THEN
        DELETE FROM jobs_uniquekey WHERE job_id = OLD.id;
        NEW.unique_key := NULL;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER a_key_goes_with_its_owner BEFORE UPDATE OF owner_id ON jobs_job FOR EACH ROW
WHEN (OLD.owner_id IS NOT NULL AND NEW.owner_id IS NULL AND OLD.unique_key IS NOT NULL)
EXECUTE FUNCTION jobs_forget_key();

-- Reverse
DROP TRIGGER a_key_goes_with_its_owner ON jobs_job;
DROP TRIGGER a_key_is_free_when_its_job_ends ON jobs_live;
DROP TRIGGER an_outcome_goes_with_its_job ON jobs_outcome;
DROP TRIGGER a_record_goes_with_its_outcome ON jobs_job;
DROP TRIGGER a_record_is_kept ON jobs_job;
DROP TRIGGER a_live_job_is_never_deleted ON jobs_live;
DROP TRIGGER an_ended_job_is_never_changed ON jobs_outcome;
DROP FUNCTION jobs_forget_key();
DROP FUNCTION jobs_free_key();
DROP FUNCTION jobs_keep_outcome();
DROP FUNCTION jobs_delete_record();
DROP FUNCTION jobs_keep_record();
DROP FUNCTION jobs_keep_live();
DROP FUNCTION jobs_refuse();
