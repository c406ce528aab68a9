"""How much a job wrote, and guards for its payload and its result (docs/adr/0050)."""

from django.db import migrations, models

# The WHERE clauses of our statements are the first line; these hold for everybody else, a person at psql included. The
# two on UPDATE name columns: a statement that sets no payload is not asked about it, and so a finish pays for its result
# alone.
#
# jobs_keep_result is STABLE so that it sees the job as the statement found it: the statement that writes a result is the
# one that ends the job, and a volatile function would already see that end. A job that has ended never runs again, so
# whoever ends one has a snapshot in which it had not ended, however long it waited for the row. enable_seqscan: its plan
# is kept by each session, and one that was made while the table was small would read all of it later.
#
# A body is looked for when its transaction ends: retention deletes both in one statement, the ORM the body first.
GUARDS = """
CREATE FUNCTION jobs_keep_payload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a payload is never changed (job %)', OLD.job_id USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER a_payload_is_never_changed BEFORE UPDATE OF job_id, payload, traceparent ON jobs_body FOR EACH ROW
WHEN ((OLD.job_id, OLD.payload, OLD.traceparent) IS DISTINCT FROM (NEW.job_id, NEW.payload, NEW.traceparent))
EXECUTE FUNCTION jobs_keep_payload();

CREATE FUNCTION jobs_keep_result() RETURNS trigger LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    IF OLD.result IS NOT NULL
       OR EXISTS (SELECT FROM jobs_job WHERE id = OLD.job_id AND ended_at IS NOT NULL) THEN
        RAISE EXCEPTION 'a result is written once, by the end of its job (job %)', OLD.job_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER a_result_is_written_once BEFORE UPDATE OF result ON jobs_body FOR EACH ROW
WHEN (OLD.result IS DISTINCT FROM NEW.result)
EXECUTE FUNCTION jobs_keep_result();

CREATE FUNCTION jobs_keep_body() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM jobs_job WHERE id = OLD.job_id) THEN
        RAISE EXCEPTION 'payload and result go with their job (job %)', OLD.job_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER payload_and_result_go_with_their_job AFTER DELETE ON jobs_body
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION jobs_keep_body();

-- Beside an_ended_job_is_never_changed, whose list of columns is older.
CREATE TRIGGER what_an_ended_job_wrote_stays_counted BEFORE UPDATE OF output_bytes, earlier_output_bytes ON jobs_job
FOR EACH ROW
WHEN (OLD.ended_at IS NOT NULL AND (OLD.output_bytes, OLD.earlier_output_bytes)
      IS DISTINCT FROM (NEW.output_bytes, NEW.earlier_output_bytes))
EXECUTE FUNCTION jobs_refuse('an ended job is never changed');
"""

NO_GUARDS = """
DROP TRIGGER what_an_ended_job_wrote_stays_counted ON jobs_job;
DROP TRIGGER payload_and_result_go_with_their_job ON jobs_body;
DROP TRIGGER a_result_is_written_once ON jobs_body;
DROP TRIGGER a_payload_is_never_changed ON jobs_body;
DROP FUNCTION jobs_keep_body();
DROP FUNCTION jobs_keep_result();
DROP FUNCTION jobs_keep_payload();
"""


class Migration(migrations.Migration):
    """Columns with constant defaults, and triggers: no row is read or written."""

    dependencies = [("jobs", "0006_offspring")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="output_bytes",
            field=models.BigIntegerField(default=0, db_default=0, help_text="Written by this attempt."),
        ),
        migrations.AddField(
            model_name="job",
            name="earlier_output_bytes",
            field=models.BigIntegerField(
                default=0, db_default=0, help_text="Written by the attempts before it."
            ),
        ),
        migrations.RunSQL(GUARDS, NO_GUARDS),
    ]
