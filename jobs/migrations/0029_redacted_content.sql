-- The guards of what has ended let its content be redacted, once, where its kind has patterns (docs/adr/0140). Migration 0029
-- runs this file.

CREATE OR REPLACE FUNCTION jobs_refuse() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    may_go CONSTANT text[] := ARRAY['result', 'detail', 'next_seq', 'output_bytes', 'earlier_output_bytes'];
BEGIN
    IF to_jsonb(OLD) - may_go = to_jsonb(NEW) - may_go
       AND EXISTS (SELECT FROM jobs_contentdeletion AS deletion WHERE deletion.job_id = OLD.job_id
                   AND (NEW.result IS NULL AND NEW.detail IS NULL OR deletion.patterns <> '' AND deletion.deleted_at IS NULL)) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% (job %)', TG_ARGV[0], OLD.job_id USING ERRCODE = 'restrict_violation';
END $$;

CREATE OR REPLACE FUNCTION jobs_keep_record() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    may_go text[] := ARRAY['owner_id', 'group_id', 'retry_of_id', 'flow_id'];
    is_deletion CONSTANT boolean := NEW.inputs IS NULL
        AND OLD.replaced_at IS NOT DISTINCT FROM NEW.replaced_at
        AND EXISTS (SELECT FROM jobs_contentdeletion AS deletion WHERE deletion.job_id = OLD.id
                    AND (NEW.payload = 'null' OR deletion.patterns <> '' AND deletion.deleted_at IS NULL))
        AND EXISTS (SELECT FROM jobs_outcome AS outcome WHERE outcome.job_id = OLD.id);
BEGIN
    IF is_deletion THEN
        may_go := may_go || ARRAY['payload', 'inputs'];
    END IF;
    IF to_jsonb(OLD) - may_go IS DISTINCT FROM to_jsonb(NEW) - may_go
       AND EXISTS (SELECT FROM jobs_outcome AS outcome WHERE outcome.job_id = OLD.id) THEN
        RAISE EXCEPTION 'an ended job is never changed (job %)', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    IF (OLD.id, OLD.kind) IS DISTINCT FROM (NEW.id, NEW.kind)
       OR (OLD.payload, OLD.traceparent) IS DISTINCT FROM (NEW.payload, NEW.traceparent) AND NOT is_deletion
          AND NOT (NEW.replaced_at IS NOT NULL AND NEW.replaced_at IS DISTINCT FROM OLD.replaced_at
                   AND EXISTS (SELECT FROM jobs_live AS live WHERE live.job_id = OLD.id AND live.has_key
                               AND live.lease_expires_at IS NULL AND live.confirmed_fence + 0 = 0)) THEN
        RAISE EXCEPTION 'a payload is never changed (job %)', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

-- Reverse
SELECT 1;
