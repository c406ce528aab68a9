-- What an ended job required is never changed either (0001_guards.sql has the reasons), nor is what later migrations add:
-- every column is guarded but those named here. And until when a worker looks at the jobs of a range of the claim's
-- index. Migration 0008 runs this file.
CREATE OR REPLACE FUNCTION jobs_keep_ended() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- Up to which due time a worker that satisfies these requirements takes the jobs with this key of the index: all
-- (infinity), or none (null). A negative number in the key is that of a requirement (docs/adr/0085). Where the worker
-- lacks what is preferred alone, and a live worker has that, it takes what has been due for a head start.
CREATE FUNCTION jobs_takes_until(key bigint[], satisfies integer[], head_start_s float8, alive_s float8)
RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted jobs_requirement;
BEGIN
    IF key[1] > 0 OR -key[1] = ANY (satisfies) THEN
        RETURN 'infinity';
    END IF;
    SELECT * INTO wanted FROM jobs_requirement WHERE id = -key[1];
    IF wanted.id IS NULL OR wanted.prefers = '{}' OR NOT (wanted.base_id IS NULL OR wanted.base_id = ANY (satisfies)) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (
        SELECT FROM jobs_worker
        WHERE wanted.id = ANY (jobs_worker.satisfies) AND revoked_at IS NULL AND drained_at IS NULL
          AND last_seen_at > statement_timestamp() - make_interval(secs => alive_s)) THEN
        RETURN statement_timestamp() - make_interval(secs => head_start_s);
    END IF;
    RETURN 'infinity';
END $$;

-- Reverse
DROP FUNCTION jobs_takes_until(bigint[], integer[], float8, float8);
DO $$
DECLARE
    kept CONSTANT text[] := ARRAY[
        'id', 'kind', 'queue', 'status', 'priority', 'unique_key', 'created_at', 'run_at', 'expires_at', 'max_attempts',
        'failures', 'timeout_s', 'retry_on_timeout', 'excluded_workers', 'excluded_until', 'fence', 'worker_id',
        'worker_name', 'claimed_at', 'next_seq', 'progress', 'detail', 'ended_at', 'limit_name', 'limit_key',
        'limit_count', 'limit_until', 'attempt', 'confirmed_fence', 'last_secret', 'releases', 'request',
        'retry_when_lost', 'output_bytes', 'earlier_output_bytes'];
BEGIN
    EXECUTE format(
        $sql$
        CREATE OR REPLACE FUNCTION jobs_keep_ended() RETURNS trigger LANGUAGE plpgsql AS $function$
        BEGIN
            IF (OLD.%s) IS DISTINCT FROM (NEW.%s) THEN
                RAISE EXCEPTION 'an ended job is never changed (job %%, %%)', OLD.id, OLD.status
                    USING ERRCODE = 'restrict_violation';
            END IF;
            RETURN NEW;
        END $function$
        $sql$,
        array_to_string(kept, ', OLD.'), array_to_string(kept, ', NEW.'));
END $$;
