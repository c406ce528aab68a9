"""What Django's models cannot say: early vacuums for the queue, and guards that no caller can forget."""

from django.db import migrations

# The queue's rows live for milliseconds: dead ones pile up at the head of its index, which is where every hand-out
# looks. Vacuum after a thousand and not after a fifth. An ended function is written once more, when it ends.
STORAGE = """
ALTER TABLE scheduling_due SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
                                autovacuum_vacuum_cost_delay = 0);
ALTER TABLE scheduling_scheduledfunction SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE scheduling_cluster SET (fillfactor = 50);
"""

# The WHERE clauses of our statements are the first line; this holds for everybody else, a person at psql included.
GUARDS = """
CREATE FUNCTION scheduling_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% (scheduled function %, %)', TG_ARGV[0], OLD.id, OLD.state USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER an_ended_function_is_never_changed BEFORE UPDATE ON scheduling_scheduledfunction FOR EACH ROW
WHEN (OLD.ended_at IS NOT NULL AND (OLD.state, OLD.ended_at, OLD.started_at, OLD.function, OLD.attempt)
      IS DISTINCT FROM (NEW.state, NEW.ended_at, NEW.started_at, NEW.function, NEW.attempt))
EXECUTE FUNCTION scheduling_refuse('an ended function is never changed');
CREATE TRIGGER a_live_function_is_never_deleted BEFORE DELETE ON scheduling_scheduledfunction FOR EACH ROW
WHEN (OLD.ended_at IS NULL)
EXECUTE FUNCTION scheduling_refuse('a function that has not ended is never deleted');
"""

NO_GUARDS = """
DROP TRIGGER a_live_function_is_never_deleted ON scheduling_scheduledfunction;
DROP TRIGGER an_ended_function_is_never_changed ON scheduling_scheduledfunction;
DROP FUNCTION scheduling_refuse();
"""


class Migration(migrations.Migration):
    """Storage parameters, and triggers of scheduling_scheduledfunction."""

    dependencies = [("scheduling", "0001_initial")]

    operations = [
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
        migrations.RunSQL(GUARDS, NO_GUARDS),
    ]
