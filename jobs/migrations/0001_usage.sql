-- What the jobs of each owner keep, counted by triggers (docs/adr/0057).
-- Migration 0001 runs this file; from the first release on it is never changed, as the migration is.
--
-- Whoever changes what a job keeps writes down by how much, in the same transaction: a row of jobs_usagedelta, inserted
-- and never updated, so that two transactions of one owner do not wait for each other. Each change is the difference of
-- a function of the rows, so the sum of all is what the rows say, whatever statement wrote them.
-- enable_seqscan: each session keeps its plans, and one made while the table was small would read all of it later.

-- A cron adds its rows up every 10 s and deletes them: the table is small and its dead rows are many. Vacuum at 5,000.
ALTER TABLE jobs_usagedelta SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Output is charged when an attempt ends, and of one that runs by whole MiB: pieces come by the thousand, and this way
-- one in tens of thousands writes a second row.
CREATE FUNCTION jobs_kept_output(earlier bigint, output bigint, lease uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN earlier + CASE WHEN lease IS NULL THEN output ELSE output & -1048576::bigint END;

-- The trigger names its columns: heartbeats set none of them and are not asked. Its condition is jobs_kept_output,
-- inlined.
CREATE FUNCTION jobs_charge_output() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_usagedelta (owner_id, output_bytes) VALUES (
        OLD.owner_id,
        CASE WHEN TG_OP = 'DELETE' THEN OLD.earlier_output_bytes + OLD.output_bytes
             ELSE jobs_kept_output(NEW.earlier_output_bytes, NEW.output_bytes, NEW.lease_secret) END
        - jobs_kept_output(OLD.earlier_output_bytes, OLD.output_bytes, OLD.lease_secret));
    RETURN NULL;
END $$;
CREATE TRIGGER what_a_job_wrote_is_charged
AFTER UPDATE OF lease_secret, output_bytes, earlier_output_bytes ON jobs_live FOR EACH ROW
WHEN (NEW.earlier_output_bytes
      + CASE WHEN NEW.lease_secret IS NULL THEN NEW.output_bytes ELSE NEW.output_bytes & -1048576::bigint END
      <> OLD.earlier_output_bytes
      + CASE WHEN OLD.lease_secret IS NULL THEN OLD.output_bytes ELSE OLD.output_bytes & -1048576::bigint END)
EXECUTE FUNCTION jobs_charge_output();
-- By its end, which is the one way in which a live row goes.
CREATE TRIGGER what_an_ended_job_wrote_is_charged AFTER DELETE ON jobs_live FOR EACH ROW
WHEN (OLD.lease_secret IS NOT NULL AND OLD.output_bytes & 1048575 <> 0)
EXECUTE FUNCTION jobs_charge_output();

-- A job that goes to another owner takes with it what it keeps.
CREATE FUNCTION jobs_charge_new_owner() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO jobs_usagedelta (owner_id, output_bytes, files, file_bytes)
    SELECT whose.owner_id, whose.sign * kept.output, whose.sign * kept.files, whose.sign * kept.bytes
    FROM (SELECT coalesce(
                     (SELECT jobs_kept_output(live.earlier_output_bytes, live.output_bytes, live.lease_secret)
                      FROM jobs_live AS live WHERE live.job_id = NEW.id),
                     (SELECT outcome.earlier_output_bytes + outcome.output_bytes
                      FROM jobs_outcome AS outcome WHERE outcome.job_id = NEW.id), 0) AS output,
                 count(*) AS files, coalesce(sum(size), 0)::bigint AS bytes
          FROM jobs_resultfile WHERE job_id = NEW.id) AS kept
    CROSS JOIN (VALUES (OLD.owner_id, -1), (NEW.owner_id, 1)) AS whose (owner_id, sign)
    WHERE kept.output > 0 OR kept.files > 0;
    RETURN NULL;
END $$;
CREATE TRIGGER what_a_job_keeps_goes_with_its_owner AFTER UPDATE OF owner_id ON jobs_job FOR EACH ROW
WHEN (OLD.owner_id IS DISTINCT FROM NEW.owner_id) EXECUTE FUNCTION jobs_charge_new_owner();

-- Files, all of a statement at once. Retention deletes them together with their jobs, which are gone when the trigger
-- asks whose they were: jobs/sql/retain.sql writes that difference itself.
CREATE FUNCTION jobs_charge_files() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO jobs_usagedelta (owner_id, files, file_bytes)
        SELECT job.owner_id, count(*), sum(file.size)
        FROM becomes AS file JOIN jobs_job AS job ON job.id = file.job_id GROUP BY job.owner_id;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO jobs_usagedelta (owner_id, files, file_bytes)
        SELECT job.owner_id, -count(*), -sum(file.size)
        FROM was AS file JOIN jobs_job AS job ON job.id = file.job_id GROUP BY job.owner_id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER new_files_are_charged AFTER INSERT ON jobs_resultfile
REFERENCING NEW TABLE AS becomes FOR EACH STATEMENT EXECUTE FUNCTION jobs_charge_files();
CREATE TRIGGER replaced_files_are_charged AFTER UPDATE ON jobs_resultfile
REFERENCING OLD TABLE AS was NEW TABLE AS becomes FOR EACH STATEMENT EXECUTE FUNCTION jobs_charge_files();
CREATE TRIGGER deleted_files_are_free AFTER DELETE ON jobs_resultfile
REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION jobs_charge_files();

-- Uploads are charged to whoever uploaded them, as result files are to the owner of their job (above): a
-- delta for each owner that a statement changed something for.
CREATE FUNCTION jobs_charge_uploads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO jobs_usagedelta (owner_id, files, file_bytes)
        SELECT owner_id, count(*), sum(size) FROM becomes GROUP BY owner_id;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO jobs_usagedelta (owner_id, files, file_bytes)
        SELECT owner_id, -count(*), -sum(size) FROM was GROUP BY owner_id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER new_uploads_are_charged AFTER INSERT ON jobs_upload
REFERENCING NEW TABLE AS becomes FOR EACH STATEMENT EXECUTE FUNCTION jobs_charge_uploads();
CREATE TRIGGER uploads_go_with_their_owner AFTER UPDATE ON jobs_upload
REFERENCING OLD TABLE AS was NEW TABLE AS becomes FOR EACH STATEMENT EXECUTE FUNCTION jobs_charge_uploads();
CREATE TRIGGER deleted_uploads_are_free AFTER DELETE ON jobs_upload
REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION jobs_charge_uploads();

-- Reverse
DROP TRIGGER deleted_uploads_are_free ON jobs_upload;
DROP TRIGGER uploads_go_with_their_owner ON jobs_upload;
DROP TRIGGER new_uploads_are_charged ON jobs_upload;
DROP FUNCTION jobs_charge_uploads();
DROP TRIGGER deleted_files_are_free ON jobs_resultfile;
DROP TRIGGER replaced_files_are_charged ON jobs_resultfile;
DROP TRIGGER new_files_are_charged ON jobs_resultfile;
DROP TRIGGER what_a_job_keeps_goes_with_its_owner ON jobs_job;
DROP TRIGGER what_an_ended_job_wrote_is_charged ON jobs_live;
DROP TRIGGER what_a_job_wrote_is_charged ON jobs_live;
DROP FUNCTION jobs_charge_files();
DROP FUNCTION jobs_charge_new_owner();
DROP FUNCTION jobs_charge_output();
DROP FUNCTION jobs_kept_output(bigint, bigint, uuid);
