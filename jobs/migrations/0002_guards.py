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
# to nothing. Whose an ended job is may change, for its owner or
# group may be deleted, and so may the job that it tries again. What a lease is made of is null by a constraint.
GUARDS = """
CREATE FUNCTION jobs_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% (job %, %)', TG_ARGV[0], OLD.id, OLD.status USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER an_ended_job_is_never_changed BEFORE UPDATE ON jobs_job FOR EACH ROW
WHEN (OLD.ended_at IS NOT NULL AND (
    OLD.id, OLD.kind, OLD.queue, OLD.status, OLD.priority, OLD.unique_key, OLD.created_at, OLD.run_at,
    OLD.expires_at, OLD.max_attempts, OLD.failures, OLD.timeout_s, OLD.retry_on_timeout, OLD.excluded_workers,
    OLD.excluded_until, OLD.fence, OLD.worker_id, OLD.worker_name, OLD.claimed_at, OLD.next_seq, OLD.progress,
    OLD.detail, OLD.ended_at)
    IS DISTINCT FROM (
    NEW.id, NEW.kind, NEW.queue, NEW.status, NEW.priority, NEW.unique_key, NEW.created_at, NEW.run_at,
    NEW.expires_at, NEW.max_attempts, NEW.failures, NEW.timeout_s, NEW.retry_on_timeout, NEW.excluded_workers,
    NEW.excluded_until, NEW.fence, NEW.worker_id, NEW.worker_name, NEW.claimed_at, NEW.next_seq, NEW.progress,
    NEW.detail, NEW.ended_at))
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
