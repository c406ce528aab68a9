"""What was counted of the past by kind too. Rows are added to the key as they are: those from before have no kind."""

from django.db import migrations, models

KEY = 'ALTER TABLE jobs_rollup DROP CONSTRAINT jobs_rollup_pkey, ADD PRIMARY KEY (%s)'
# On the way back: several kinds of one queue and step do not fit the key of before, so what was counted by kind goes.
FORGET = "DELETE FROM jobs_rollup WHERE kind <> ''"


class Migration(migrations.Migration):
    dependencies = [('jobs', '0004_attempts_of_workers')]

    operations = [
        migrations.AddField(
            model_name='rollup',
            name='kind',
            field=models.CharField(db_default='', max_length=100),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    KEY % 'step_s, at, queue, kind', f'{FORGET}; {KEY % "step_s, at, queue"}'
                ),
            ],
            state_operations=[
                migrations.AlterField(
                    model_name='rollup',
                    name='pk',
                    field=models.CompositePrimaryKey('step_s', 'at', 'queue', 'kind', blank=True, editable=False, primary_key=True, serialize=False),
                ),
            ],
        ),
    ]
