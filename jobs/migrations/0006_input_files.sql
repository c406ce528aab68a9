-- Uploads are charged to whoever uploaded them, as result files are to the owner of their job (0001_usage.sql): a
-- delta for each owner that a statement changed something for. Migration 0006 runs this file.
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
