-- A job that waits behind another of its unique_key, and a payload that a newer submit replaced (docs/adr/0123). Migration
-- 0005 runs this file.

-- A job leaves its key, since it ends or loses it. Who waits behind it has the key then and is due, in the same transaction:
-- nobody can be stranded. Rows of live are locked before those of keys, as by who submits. The caller holds the job's.
-- A follower that leaves is one that nobody waits for.
CREATE FUNCTION jobs_leave_key(leaver bigint) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    next_id bigint;
    living jobs_uniquekey;
BEGIN
    SELECT follower_id INTO next_id FROM jobs_uniquekey WHERE job_id = leaver;
    IF next_id IS NOT NULL THEN
        PERFORM FROM jobs_live WHERE job_id = next_id FOR UPDATE;
    END IF;
    DELETE FROM jobs_uniquekey WHERE job_id = leaver RETURNING * INTO living;
    IF NOT FOUND THEN
        UPDATE jobs_uniquekey SET follower_id = NULL, follower_due_at = NULL WHERE follower_id = leaver;
    ELSIF living.follower_id IS NOT NULL THEN
        INSERT INTO jobs_uniquekey (job_id, kind, unique_key, owner_id)
        VALUES (living.follower_id, living.kind, living.unique_key, living.owner_id);
        UPDATE jobs_live SET run_at = greatest(living.follower_due_at, statement_timestamp())
        WHERE job_id = living.follower_id;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION jobs_free_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM jobs_leave_key(OLD.job_id);
    RETURN NULL;
END $$;

-- One that waits behind another and loses its owner, and so the key, waits for nobody any more.
CREATE OR REPLACE FUNCTION jobs_forget_key() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE jobs_live SET has_key = false,
        run_at = CASE WHEN run_at = '9000-01-01 00:00:00+00' THEN statement_timestamp() ELSE run_at END
    WHERE job_id = OLD.id AND has_key;
    IF FOUND THEN
        PERFORM jobs_leave_key(OLD.id);
        NEW.unique_key := NULL;
    END IF;
    RETURN NEW;
END $$;

-- A payload is changed in one way alone: a newer submit of its unique_key replaces it, and says when, while the job waits
-- and no worker has ever begun it. What its claims bring is what it was begun with, and stays.
CREATE OR REPLACE FUNCTION jobs_keep_record() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    may_go CONSTANT text[] := ARRAY['owner_id', 'group_id', 'retry_of_id'];
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

-- Reverse
CREATE OR REPLACE FUNCTION jobs_keep_record() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
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
CREATE OR REPLACE FUNCTION jobs_forget_key() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE jobs_live SET has_key = false WHERE job_id = OLD.id AND has_key;
    IF FOUND THEN
        DELETE FROM jobs_uniquekey WHERE job_id = OLD.id;
        NEW.unique_key := NULL;
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE FUNCTION jobs_free_key() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM jobs_uniquekey WHERE job_id = OLD.job_id;
    RETURN NULL;
END $$;
DROP FUNCTION jobs_leave_key(bigint);
