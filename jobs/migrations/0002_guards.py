"""What Django's models cannot say: room for HOT updates, early vacuums, and two guards that no caller can forget."""

from django.db import migrations

# A job's row is rewritten at claim, at each heartbeat and at its end: a fifth of each page is left for that, so that
# heartbeats stay on their page (HOT). Vacuum at 1 % dead rows instead of 20 %: the head of the claim's index is where
# dead entries collect.
STORAGE = """
ALTER TABLE jobs_job SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
                          autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE jobs_worker SET (fillfactor = 50);
ALTER TABLE jobs_slot SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
"""

# The WHERE clauses of our statements are the first line (DESIGN promises 1 and 3); these two hold for everybody else,
# a person at psql included. The conditions are checked without calling the function, so a claim or a finish pays next
# to nothing. Whose an ended job is may change: its owner or group may be deleted.
GUARDS = """
CREATE FUNCTION jobs_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% (job %, %)', TG_ARGV[0], OLD.id, OLD.status USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER an_ended_job_is_never_changed BEFORE UPDATE ON jobs_job FOR EACH ROW
WHEN (OLD.ended_at IS NOT NULL AND (
    OLD.status, OLD.claim_no, OLD.failures, OLD.ended_at, OLD.worker_id, OLD.run_at, OLD.kind, OLD.queue)
    IS DISTINCT FROM (
    NEW.status, NEW.claim_no, NEW.failures, NEW.ended_at, NEW.worker_id, NEW.run_at, NEW.kind, NEW.queue))
EXECUTE FUNCTION jobs_refuse('an ended job is never changed');
CREATE TRIGGER a_live_job_is_never_deleted BEFORE DELETE ON jobs_job FOR EACH ROW
WHEN (OLD.ended_at IS NULL)
EXECUTE FUNCTION jobs_refuse('a job that has not ended is never deleted');
"""

NO_GUARDS = """
DROP TRIGGER a_live_job_is_never_deleted ON jobs_job;
DROP TRIGGER an_ended_job_is_never_changed ON jobs_job;
DROP FUNCTION jobs_refuse();
"""


class Migration(migrations.Migration):
    """Storage parameters and triggers of jobs_job."""

    dependencies = [("jobs", "0001_initial"), ("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
        migrations.RunSQL(GUARDS, NO_GUARDS),
    ]
