-- What no call writes, and SQL may: values by which a claim of all, a hand-in of several or a list failed for everybody. Short,
-- for each is read from its text in each statement (docs/adr/0037). What is there already is not looked at (NOT VALID): no
-- table is read for it, and no migration fails.
-- A claim number follows, as the text of a lease holds it, and so do an attempt and the output of several.
ALTER TABLE jobs_live ADD CONSTRAINT a_job_can_be_claimed_again CHECK (
    greatest(fence, output_bytes, earlier_output_bytes) < 999999999999999999
    AND least(fence, output_bytes, earlier_output_bytes, worker_id) >= 0 AND failures < 32767) NOT VALID;
ALTER TABLE jobs_job ADD CONSTRAINT a_record_can_be_shown CHECK (
    queue <> '' AND flow_id >= 0 AND timeout_s < 1e9 AND array_position(tags, NULL) IS NULL
    AND NOT inputs @? 'strict $ ? (@.type() != "array" || exists (@[*] ? ((exists (@.name)) is unknown)))') NOT VALID;
ALTER TABLE jobs_lane ADD CONSTRAINT who_avoids_a_lane_is_known CHECK (array_position(avoid, NULL) IS NULL) NOT VALID;

-- Reverse
ALTER TABLE jobs_lane DROP CONSTRAINT who_avoids_a_lane_is_known;
ALTER TABLE jobs_job DROP CONSTRAINT a_record_can_be_shown;
ALTER TABLE jobs_live DROP CONSTRAINT a_job_can_be_claimed_again;
