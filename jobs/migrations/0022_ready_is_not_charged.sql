-- What lay ready at a worker and was given back is charged to nobody's share (docs/adr/0121): its lease was never named, and
-- that is not counted against the job. Migration 0022 runs this file.

CREATE OR REPLACE TRIGGER a_run_that_failed_is_charged AFTER UPDATE OF counted_in ON jobs_live FOR EACH ROW
WHEN (OLD.counted_in IS NOT NULL AND NEW.counted_in IS NULL
      AND (NEW.confirmed_fence >= OLD.fence OR NEW.unconfirmed > OLD.unconfirmed)) EXECUTE FUNCTION jobs_charge_share();

-- Reverse
CREATE OR REPLACE TRIGGER a_run_that_failed_is_charged AFTER UPDATE OF counted_in ON jobs_live FOR EACH ROW
WHEN (OLD.counted_in IS NOT NULL AND NEW.counted_in IS NULL) EXECUTE FUNCTION jobs_charge_share();
