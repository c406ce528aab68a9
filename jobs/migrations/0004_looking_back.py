"""What pages look back on (rollups, stages, origins), and bulk actions on many jobs (docs/adr/0030)."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0003_kind_limits'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Origin',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='origin', serialize=False, to='jobs.job')),
                ('function_id', models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='Bulk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('action', models.CharField(choices=[('cancel', 'cancel'), ('retry', 'retry'), ('change_queue', 'change queue'), ('change_priority', 'change priority'), ('run_now', 'run now'), ('undo', 'undo')], max_length=15)),
                ('value', models.CharField(blank=True, help_text='The new queue or priority.', max_length=100)),
                ('filters', models.JSONField(help_text='What the list was narrowed to.')),
                ('phase', models.CharField(choices=[('counting', 'counting'), ('ready', 'ready'), ('running', 'running'), ('done', 'done'), ('stopped', 'stopped')], default='counting', max_length=8)),
                ('top_id', models.BigIntegerField(help_text='Jobs with greater ids came after the question.')),
                ('next_id', models.BigIntegerField(help_text='What is below this id has still to be looked at.')),
                ('matched', models.BigIntegerField(default=0)),
                ('handled', models.BigIntegerField(default=0)),
                ('changed', models.BigIntegerField(default=0)),
                ('came_to', models.JSONField(default=dict, help_text='How many came to what.')),
                ('why', models.CharField(blank=True, help_text='Why it stopped.', max_length=200)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('began_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('by', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='bulks', to=settings.AUTH_USER_MODEL)),
                ('undoes', models.OneToOneField(blank=True, help_text='Takes this one back.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='undone_by', to='jobs.bulk')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='BulkItem',
            fields=[
                ('pk', models.CompositePrimaryKey('bulk_id', 'job_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('job_id', models.BigIntegerField()),
                ('was', models.JSONField(help_text='What it had before, or which job was made of it.')),
                ('bulk', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='items', to='jobs.bulk')),
            ],
        ),
        migrations.CreateModel(
            name='Stage',
            fields=[
                ('pk', models.CompositePrimaryKey('job_id', 'attempt', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('attempt', models.BigIntegerField()),
                ('number', models.SmallIntegerField()),
                ('detail', models.CharField(max_length=200)),
                ('progress', models.FloatField(null=True)),
                ('began_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='stages', to='jobs.job')),
            ],
        ),
        migrations.CreateModel(
            name='Rollup',
            fields=[
                ('pk', models.CompositePrimaryKey('step_s', 'at', 'queue', blank=True, editable=False, primary_key=True, serialize=False)),
                ('step_s', models.SmallIntegerField()),
                ('at', models.DateTimeField()),
                ('queue', models.CharField(max_length=100)),
                ('arrived', models.IntegerField()),
                ('success', models.IntegerField()),
                ('failed', models.IntegerField()),
                ('canceled', models.IntegerField()),
                ('timed_out', models.IntegerField()),
                ('ran', models.JSONField()),
                ('waited', models.JSONField()),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('step_s__in', [60, 600, 3600])), name='a_rollup_has_a_known_step')],
            },
        ),
        migrations.CreateModel(
            name='RollupWatermark',
            fields=[
                ('id', models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('settled_until', models.DateTimeField()),
                ('looked_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='there_is_one_rollup_watermark')],
            },
        ),
        migrations.AddIndex(
            model_name='bulk',
            index=models.Index(models.F('by'), models.F('id'), name='jobs_bulks_of'),
        ),
    ]
