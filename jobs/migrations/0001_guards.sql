-- What Django's models cannot say of jobs: room for HOT updates, early vacuums, and guards that no caller can forget.
-- Migration 0001 runs this file; from the first release on it is never changed, as the migration is.

-- A job's row is rewritten at claim, at each heartbeat and at its end: a fifth of each page is left for that, so that
-- heartbeats stay on their page (HOT). Vacuum at 1 % dead rows instead of 20 %: the head of the claim's index is where
-- dead entries collect.
ALTER TABLE jobs_job SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
                          autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE jobs_worker SET (fillfactor = 50);

-- The WHERE clauses of our statements are the first line (docs/promises.md); the guards hold for everybody else, a
-- person at psql included. Their conditions are checked without calling the function. They are short, for PostgreSQL
-- reads a condition from its stored text in every statement that may meet it (docs/adr/0037).
CREATE FUNCTION jobs_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% (job %, %)', TG_ARGV[0], OLD.id, OLD.status USING ERRCODE = 'restrict_violation';
END $$;

-- Every column is guarded but those named, what later migrations add too.
CREATE FUNCTION jobs_keep_ended() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    -- Who it belongs to may go away; what a lease is made of is null by a constraint.
    may_change CONSTANT text[] := ARRAY[
        'owner_id', 'group_id', 'retry_of_id', 'lease_secret', 'lease_expires_at', 'deadline_at'];
BEGIN
    IF to_jsonb(OLD) - may_change IS DISTINCT FROM to_jsonb(NEW) - may_change THEN
        RAISE EXCEPTION 'an ended job is never changed (job %, %)', OLD.id, OLD.status
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER an_ended_job_is_never_changed BEFORE UPDATE ON jobs_job FOR EACH ROW
WHEN (OLD.ended_at IS NOT NULL)
EXECUTE FUNCTION jobs_keep_ended();

CREATE TRIGGER a_live_job_is_never_deleted BEFORE DELETE ON jobs_job FOR EACH ROW
WHEN (OLD.ended_at IS NULL)
EXECUTE FUNCTION jobs_refuse('a job that has not ended is never deleted');

-- A job comes to have no owner when its owner is deleted. Those without one share a space of keys, the site's own: two
-- people with the same key could not both be deleted, and what the site submits would be refused for a stranger's job
-- (docs/adr/0049). The claim and the heartbeats do not name the column, so they never come here.
CREATE FUNCTION jobs_forget_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.unique_key := NULL;
    RETURN NEW;
END $$;
CREATE TRIGGER a_key_goes_with_its_owner BEFORE UPDATE OF owner_id ON jobs_job FOR EACH ROW
WHEN (OLD.owner_id IS NOT NULL AND NEW.owner_id IS NULL AND NEW.ended_at IS NULL)
EXECUTE FUNCTION jobs_forget_key();

-- Payload and result (docs/adr/0042). The trigger names its columns: a statement that sets no payload is not asked.
CREATE FUNCTION jobs_keep_payload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a payload is never changed (job %)', OLD.job_id USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER a_payload_is_never_changed BEFORE UPDATE OF job_id, payload, traceparent ON jobs_body FOR EACH ROW
WHEN ((OLD.job_id, OLD.payload, OLD.traceparent) IS DISTINCT FROM (NEW.job_id, NEW.payload, NEW.traceparent))
EXECUTE FUNCTION jobs_keep_payload();

-- It looks once at all that a statement wrote: a trigger for each row cost 7.5 microseconds a result, this one 1.5 in a
-- batch of a hundred. It is STABLE so that it sees the jobs as the statement found them: the one that writes results is
-- the one that ends their jobs, and a volatile function would already see those ends. A job that has ended never runs
-- again, so whoever ends one has a snapshot in which it had not ended, however long it waited for the row.
-- enable_seqscan: each session keeps its plan, and one made while the table was small would read all of it later.
CREATE FUNCTION jobs_keep_results() RETURNS trigger LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    kept bigint;
BEGIN
    SELECT was.job_id INTO kept FROM was JOIN becomes USING (job_id)
    WHERE was.result IS DISTINCT FROM becomes.result
      AND (was.result IS NOT NULL
           OR (SELECT job.ended_at IS NOT NULL FROM jobs_job AS job WHERE job.id = was.job_id))
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a result is written once, by the end of its job (job %)', kept
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER a_result_is_written_once AFTER UPDATE ON jobs_body
REFERENCING OLD TABLE AS was NEW TABLE AS becomes
FOR EACH STATEMENT EXECUTE FUNCTION jobs_keep_results();

-- A body is looked for when its transaction ends: retention deletes both in one statement, the ORM the body first.
CREATE FUNCTION jobs_keep_body() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM jobs_job WHERE id = OLD.job_id) THEN
        RAISE EXCEPTION 'payload and result go with their job (job %)', OLD.job_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER payload_and_result_go_with_their_job AFTER DELETE ON jobs_body
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION jobs_keep_body();

-- Reverse
DROP TRIGGER payload_and_result_go_with_their_job ON jobs_body;
DROP TRIGGER a_result_is_written_once ON jobs_body;
DROP TRIGGER a_payload_is_never_changed ON jobs_body;
DROP TRIGGER a_key_goes_with_its_owner ON jobs_job;
DROP TRIGGER a_live_job_is_never_deleted ON jobs_job;
DROP TRIGGER an_ended_job_is_never_changed ON jobs_job;
DROP FUNCTION jobs_keep_body();
DROP FUNCTION jobs_keep_results();
DROP FUNCTION jobs_keep_payload();
DROP FUNCTION jobs_forget_key();
DROP FUNCTION jobs_keep_ended();
DROP FUNCTION jobs_refuse();
