"""How much a job wrote, guards for its payload and its result (docs/adr/0050), two rights (docs/adr/0055)."""

from django.db import migrations, models

# The WHERE clauses of our statements are the first line; these hold for everybody else, a person at psql included. The
# first names its columns: a statement that sets no payload is not asked about it.
#
# jobs_keep_results looks once at all that a statement wrote: a trigger for each row cost 7.5 microseconds a result, this
# one 1.5 in a batch of a hundred. It is STABLE so that it sees the jobs as the statement found them: the one that writes
# results is the one that ends their jobs, and a volatile function would already see those ends. A job that has ended
# never runs again, so whoever ends one has a snapshot in which it had not ended, however long it waited for the row.
# enable_seqscan: each session keeps its plan, and one made while the table was small would read all of it later.
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

CREATE FUNCTION jobs_keep_results() RETURNS trigger LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    kept bigint;
BEGIN
    SELECT was.job_id INTO kept FROM was JOIN becomes USING (job_id)
    WHERE was.result IS DISTINCT FROM becomes.result
      AND (was.result IS NOT NULL
           OR (SELECT job.ended_at IS NOT NULL FROM jobs_job AS job WHERE job.id = was.job_id))
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a result is written once, by the end of its job (job %)', kept
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER a_result_is_written_once AFTER UPDATE ON jobs_body
REFERENCING OLD TABLE AS was NEW TABLE AS becomes
FOR EACH STATEMENT EXECUTE FUNCTION jobs_keep_results();

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
DROP FUNCTION jobs_keep_results();
DROP FUNCTION jobs_keep_payload();
"""


class Migration(migrations.Migration):
    """Columns with constant defaults, and triggers: no row is read or written."""

    dependencies = [("jobs", "0009_unique_per_owner")]

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
        migrations.AlterModelOptions(
            name="job",
            options={
                "ordering": ["-id"],
                "permissions": [
                    ("operate_job", "Can cancel, retry and move any job"),
                    ("raise_priority", "Can give jobs any priority"),
                    ("choose_queue", "Can put jobs into any queue"),
                ],
            },
        ),
    ]
