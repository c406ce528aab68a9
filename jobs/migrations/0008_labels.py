"""Labels of workers, and what jobs require and prefer of them. No row is rewritten."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Now

from postgres.schema import sql_file


class Migration(migrations.Migration):
    dependencies = [('jobs', '0007_models_of_workers')]

    operations = [
        migrations.AddField(
            model_name='kind',
            name='requires',
            field=models.JSONField(blank=True, db_default={}, default=dict, help_text='What its jobs require of a worker\'s labels, such as {"vram": ">=16"}.'),
        ),
        migrations.AddField(
            model_name='worker',
            name='labels',
            field=models.JSONField(blank=True, db_default={}, default=dict, help_text='Labels that win over what it announces; an empty value takes one away.'),
        ),
        migrations.AddField(
            model_name='worker',
            name='satisfies',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), db_default=[], default=list, editable=False, help_text='The requirements of jobs that its labels meet, with all that is preferred.', size=None),
        ),
        migrations.AddField(
            model_name='workerfacts',
            name='labels',
            field=models.JSONField(db_default={}, default=dict, help_text='The labels that it announces.'),
        ),
        migrations.AddField(
            model_name='workerfacts',
            name='loaded',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), db_default=[], default=list, help_text='Those of its models that are in memory.', size=None),
        ),
        migrations.AlterField(
            model_name='job',
            name='excluded_workers',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, help_text="Workers that failed it and do not claim it for now; a negative number is its requirement's.", size=None),
        ),
        migrations.CreateModel(
            name='Requirement',
            fields=[
                ('id', models.AutoField(primary_key=True, serialize=False)),
                ('text', models.TextField(help_text='The set in its one spelling.', unique=True)),
                ('requires', models.JSONField()),
                ('prefers', models.JSONField()),
                ('created_at', models.DateTimeField(db_default=Now())),
                ('base', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.requirement')),
            ],
        ),
        migrations.AddField(
            model_name='job',
            name='requirement',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.requirement'),
        ),
        sql_file('jobs', '0008_labels'),
    ]
