-- Jobs that come after others (docs/adr/0127). Migration 0010 runs this file.

-- A job of a flow ended. Its edges are closed in the same transaction, by itself alone: no end waits for another. Who comes
-- after it is looked at once that is committed (sql/released.sql), by whoever takes the note that stays here.
CREATE FUNCTION jobs_close_edges() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE jobs_edge SET open_of = NULL WHERE after_id = OLD.job_id AND open_of IS NOT NULL;
    IF FOUND THEN
        INSERT INTO jobs_endedstep (job_id) VALUES (OLD.job_id);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER a_flow_goes_on_after_its_job AFTER DELETE ON jobs_live FOR EACH ROW
WHEN (OLD.in_flow) EXECUTE FUNCTION jobs_close_edges();

-- A job may come to belong to a flow, or to another one, whenever others come after it.
CREATE OR REPLACE FUNCTION jobs_keep_record() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    may_go CONSTANT text[] := ARRAY['owner_id', 'group_id', 'retry_of_id', 'flow_id'];
BEGIN
    IF to_jsonb(OLD) - may_go IS DISTINCT FROM to_jsonb(NEW) - may_go
       AND EXISTS (SELECT FROM jobs_outcome AS outcome WHERE outcome.job_id = OLD.id) THEN
        RAISE EXCEPTION 'an ended job is never changed (job %)', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    IF (OLD.id, OLD.kind) IS DISTINCT FROM (NEW.id, NEW.kind)
       OR (OLD.payload, OLD.traceparent) IS DISTINCT FROM (NEW.payload, NEW.traceparent)
          AND NOT (NEW.replaced_at IS NOT NULL AND NEW.replaced_at IS DISTINCT FROM OLD.replaced_at
                   AND EXISTS (SELECT FROM jobs_live AS live WHERE live.job_id = OLD.id AND live.has_key
                               AND live.lease_expires_at IS NULL AND live.confirmed_fence + 0 = 0)) THEN
        RAISE EXCEPTION 'a payload is never changed (job %)', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

-- One that waits behind another and loses its owner, and so the key, waits for nobody any more; one that comes after others
-- of its flow still does.
CREATE OR REPLACE FUNCTION jobs_forget_key() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE jobs_live SET has_key = false,
        run_at = CASE WHEN EXISTS (SELECT FROM jobs_uniquekey AS living WHERE living.follower_id = OLD.id)
                      THEN statement_timestamp() ELSE run_at END
    WHERE job_id = OLD.id AND has_key;
    IF FOUND THEN
        PERFORM jobs_leave_key(OLD.id);
        NEW.unique_key := NULL;
    END IF;
    RETURN NEW;
END $$;

-- Whether any job of this flow has not ended.
CREATE FUNCTION jobs_flow_lives(flow bigint) RETURNS boolean LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    RETURN EXISTS (SELECT FROM jobs_job AS job CROSS JOIN LATERAL (
                       SELECT FROM jobs_live AS live WHERE live.job_id = job.id OFFSET 0) AS live
                   WHERE job.flow_id = flow);
END $$;

-- Reverse
DROP FUNCTION jobs_flow_lives(bigint);
DROP TRIGGER a_flow_goes_on_after_its_job ON jobs_live;
DROP FUNCTION jobs_close_edges();
