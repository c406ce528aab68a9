-- A farm without fair queues, bounds of keys or output pays less for them. PostgreSQL reads the condition of a trigger from its
-- text in every statement: two of them were an eighth of a claim of one job, three a fourteenth of an end. Migration 0036 runs this file.

-- Jobs have ended: what that frees and charges is done for all of a statement at once, and for most it is nothing, as one
-- look says. OFFSET 0: each outcome is looked up in its index.
CREATE OR REPLACE FUNCTION jobs_keep_live() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    lost bigint;
BEGIN
    PERFORM FROM gone AS one
    WHERE one.has_key OR one.counted_in IS NOT NULL OR one.output_bytes <> 0
       OR NOT EXISTS (SELECT FROM jobs_outcome AS outcome WHERE outcome.job_id = one.job_id OFFSET 0) LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT one.job_id INTO lost FROM gone AS one
    WHERE NOT EXISTS (SELECT FROM jobs_outcome AS outcome WHERE outcome.job_id = one.job_id OFFSET 0) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a job that has not ended is never deleted (job %)', lost USING ERRCODE = 'restrict_violation';
    END IF;
    PERFORM jobs_leave_key(one.job_id) FROM gone AS one WHERE one.has_key;
    INSERT INTO jobs_charge (queue, share, seconds)
    SELECT queue.name, jobs_share(queue.fair, one.owner_id, one.group_id, one.key_id),
           greatest(extract(epoch FROM clock_timestamp() - one.claimed_at), 0)
    FROM gone AS one CROSS JOIN LATERAL (
        SELECT found.name, found.fair FROM jobs_queue AS found WHERE found.name = one.counted_in OFFSET 0) AS queue
    WHERE queue.fair <> 'off';
    INSERT INTO jobs_usagedelta (owner_id, output_bytes)
    SELECT one.owner_id, one.output_bytes & 1048575 FROM gone AS one
    WHERE one.lease_secret IS NOT NULL AND one.output_bytes & 1048575 <> 0;
    RETURN NULL;
END $$;
DROP TRIGGER a_key_is_free_when_its_job_ends ON jobs_live;
DROP TRIGGER a_run_that_ended_is_charged ON jobs_live;
DROP TRIGGER what_an_ended_job_wrote_is_charged ON jobs_live;
DROP FUNCTION jobs_free_key();

-- Who takes back a run sets `failures` too; a claim does not.
CREATE OR REPLACE TRIGGER a_run_that_failed_is_charged AFTER UPDATE OF failures ON jobs_live FOR EACH ROW
WHEN (OLD.counted_in IS NOT NULL AND NEW.counted_in IS NULL
      AND (NEW.confirmed_fence >= OLD.fence OR NEW.unconfirmed > OLD.unconfirmed)) EXECUTE FUNCTION jobs_charge_share();

-- Whether what a job keeps has changed is asked here: the whole condition cost a claim of one job 8 %, this one 2.
CREATE OR REPLACE FUNCTION jobs_charge_output() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    more CONSTANT bigint := jobs_kept_output(NEW.earlier_output_bytes, NEW.output_bytes, NEW.lease_secret)
        - jobs_kept_output(OLD.earlier_output_bytes, OLD.output_bytes, OLD.lease_secret);
BEGIN
    IF more <> 0 THEN
        INSERT INTO jobs_usagedelta (owner_id, output_bytes) VALUES (OLD.owner_id, more);
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER what_a_job_wrote_is_charged
AFTER UPDATE OF lease_secret, output_bytes, earlier_output_bytes ON jobs_live FOR EACH ROW
WHEN (OLD.output_bytes | NEW.output_bytes <> 0) EXECUTE FUNCTION jobs_charge_output();

-- What a claim picks of a fair queue. Of `several` queues it brings how many of each job's key may run: each counts for itself.
CREATE FUNCTION jobs_pick_of_fair(of_queue text, mode text, most bigint, me bigint, mine integer[],
                                  head_start_s float8, alive_s float8, grace_s float8, several boolean)
RETURNS TABLE (tid tid, key_id integer, key_room bigint) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        SELECT fair.tid, CASE WHEN several THEN jobs_key_at(fair.tid) END,
               CASE WHEN several THEN jobs_key_room(jobs_key_at(fair.tid)) END
        FROM jobs_pick_fairly(of_queue, mode, most, me, mine, head_start_s, alive_s, grace_s) AS fair;
END $$;

-- Reverse
DROP FUNCTION jobs_pick_of_fair(text, text, bigint, bigint, integer[], float8, float8, float8, boolean);
CREATE OR REPLACE TRIGGER what_a_job_wrote_is_charged
AFTER UPDATE OF lease_secret, output_bytes, earlier_output_bytes ON jobs_live FOR EACH ROW
WHEN (NEW.earlier_output_bytes
      + CASE WHEN NEW.lease_secret IS NULL THEN NEW.output_bytes ELSE NEW.output_bytes & -1048576::bigint END
      <> OLD.earlier_output_bytes
      + CASE WHEN OLD.lease_secret IS NULL THEN OLD.output_bytes ELSE OLD.output_bytes & -1048576::bigint END)
EXECUTE FUNCTION jobs_charge_output();
CREATE OR REPLACE TRIGGER a_run_that_failed_is_charged AFTER UPDATE OF counted_in ON jobs_live FOR EACH ROW
WHEN (OLD.counted_in IS NOT NULL AND NEW.counted_in IS NULL
      AND (NEW.confirmed_fence >= OLD.fence OR NEW.unconfirmed > OLD.unconfirmed)) EXECUTE FUNCTION jobs_charge_share();
CREATE TRIGGER what_an_ended_job_wrote_is_charged AFTER DELETE ON jobs_live FOR EACH ROW
WHEN (OLD.lease_secret IS NOT NULL AND OLD.output_bytes & 1048575 <> 0) EXECUTE FUNCTION jobs_charge_output();
CREATE TRIGGER a_run_that_ended_is_charged AFTER DELETE ON jobs_live FOR EACH ROW
WHEN (OLD.counted_in IS NOT NULL) EXECUTE FUNCTION jobs_charge_share();
CREATE TRIGGER a_key_is_free_when_its_job_ends AFTER DELETE ON jobs_live FOR EACH ROW
WHEN (OLD.has_key) EXECUTE FUNCTION jobs_free_key();
