"""Files and batches of OpenAI's API."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
import openai_api.domain.batches
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='File',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(help_text='As its uploader calls it.', max_length=255)),
                ('purpose', models.CharField(max_length=50)),
                ('size', models.BigIntegerField()),
                ('sha256', models.CharField(editable=False, max_length=64)),
                ('stored_as', models.CharField(editable=False, max_length=255)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField()),
                ('owner', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-created_at', 'id'],
            },
        ),
        migrations.CreateModel(
            name='Batch',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('endpoint', models.CharField(max_length=50)),
                ('status', models.CharField(choices=[(openai_api.domain.batches.BatchStatus['VALIDATING'], 'validating'), (openai_api.domain.batches.BatchStatus['IN_PROGRESS'], 'in progress'), (openai_api.domain.batches.BatchStatus['FINALIZING'], 'finalizing'), (openai_api.domain.batches.BatchStatus['CANCELLING'], 'cancelling'), (openai_api.domain.batches.BatchStatus['COMPLETED'], 'completed'), (openai_api.domain.batches.BatchStatus['FAILED'], 'failed'), (openai_api.domain.batches.BatchStatus['EXPIRED'], 'expired'), (openai_api.domain.batches.BatchStatus['CANCELLED'], 'cancelled')], default=openai_api.domain.batches.BatchStatus['VALIDATING'], max_length=11)),
                ('ends_as', models.CharField(choices=[(openai_api.domain.batches.BatchStatus['VALIDATING'], openai_api.domain.batches.BatchStatus['VALIDATING']), (openai_api.domain.batches.BatchStatus['IN_PROGRESS'], openai_api.domain.batches.BatchStatus['IN_PROGRESS']), (openai_api.domain.batches.BatchStatus['FINALIZING'], openai_api.domain.batches.BatchStatus['FINALIZING']), (openai_api.domain.batches.BatchStatus['CANCELLING'], openai_api.domain.batches.BatchStatus['CANCELLING']), (openai_api.domain.batches.BatchStatus['COMPLETED'], openai_api.domain.batches.BatchStatus['COMPLETED']), (openai_api.domain.batches.BatchStatus['FAILED'], openai_api.domain.batches.BatchStatus['FAILED']), (openai_api.domain.batches.BatchStatus['EXPIRED'], openai_api.domain.batches.BatchStatus['EXPIRED']), (openai_api.domain.batches.BatchStatus['CANCELLED'], openai_api.domain.batches.BatchStatus['CANCELLED'])], default=openai_api.domain.batches.BatchStatus['COMPLETED'], editable=False, help_text='Its status once its files are written.', max_length=11)),
                ('completion_window', models.CharField(max_length=10)),
                ('metadata', models.JSONField(blank=True, default=dict)),
                ('errors', models.JSONField(blank=True, default=list, help_text='Why its input file was refused.')),
                ('note', models.CharField(blank=True, default='', help_text='What it waits for.', max_length=300)),
                ('total', models.IntegerField(default=0, help_text='Lines of its input file.')),
                ('submitted', models.IntegerField(default=0, help_text='Lines that are jobs.')),
                ('completed', models.IntegerField(default=0)),
                ('failed', models.IntegerField(default=0)),
                ('read_to', models.BigIntegerField(default=0, editable=False, help_text='Byte of the input after those lines.')),
                ('chain', models.IntegerField(default=0, editable=False, help_text='A step of another chain does nothing.')),
                ('next_step_at', models.DateTimeField(editable=False, help_text='Long past it, the chain is broken.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField()),
                ('in_progress_at', models.DateTimeField(blank=True, null=True)),
                ('finalizing_at', models.DateTimeField(blank=True, null=True)),
                ('cancelling_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('error_file', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='openai_api.file')),
                ('input_file', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='openai_api.file')),
                ('output_file', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='openai_api.file')),
            ],
            options={
                'verbose_name_plural': 'batches',
                'ordering': ['-created_at', 'id'],
            },
        ),
        migrations.CreateModel(
            name='Slice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('read_from', models.BigIntegerField()),
                ('job_ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
                ('custom_ids', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ('completed', models.IntegerField(default=0)),
                ('failed', models.IntegerField(default=0)),
                ('batch', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='slices', to='openai_api.batch')),
            ],
            options={
                'ordering': ['batch', 'read_from'],
            },
        ),
        migrations.AddIndex(
            model_name='file',
            index=models.Index(models.F('owner'), models.OrderBy(models.F('created_at'), descending=True), models.F('id'), name='openai_files_of_owner'),
        ),
        migrations.AddIndex(
            model_name='file',
            index=models.Index(models.F('expires_at'), name='openai_files_by_expiry'),
        ),
        migrations.AddIndex(
            model_name='batch',
            index=models.Index(models.F('owner'), models.OrderBy(models.F('created_at'), descending=True), models.F('id'), name='openai_batches_of_owner'),
        ),
        migrations.AddIndex(
            model_name='batch',
            index=models.Index(models.F('next_step_at'), condition=models.Q(('status__in', [openai_api.domain.batches.BatchStatus['CANCELLING'], openai_api.domain.batches.BatchStatus['FINALIZING'], openai_api.domain.batches.BatchStatus['IN_PROGRESS'], openai_api.domain.batches.BatchStatus['VALIDATING']])), name='openai_batches_live'),
        ),
        migrations.AddConstraint(
            model_name='batch',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', True), ('status__in', [openai_api.domain.batches.BatchStatus['CANCELLING'], openai_api.domain.batches.BatchStatus['FINALIZING'], openai_api.domain.batches.BatchStatus['IN_PROGRESS'], openai_api.domain.batches.BatchStatus['VALIDATING']])), models.Q(models.Q(('status__in', [openai_api.domain.batches.BatchStatus['CANCELLING'], openai_api.domain.batches.BatchStatus['FINALIZING'], openai_api.domain.batches.BatchStatus['IN_PROGRESS'], openai_api.domain.batches.BatchStatus['VALIDATING']]), _negated=True), ('ended_at__isnull', False)), _connector='OR'), name='batch_has_an_end_exactly_when_it_ended'),
        ),
        migrations.AddIndex(
            model_name='slice',
            index=django.contrib.postgres.indexes.GinIndex(fields=['job_ids'], name='openai_slices_by_job'),
        ),
        migrations.AddConstraint(
            model_name='slice',
            constraint=models.UniqueConstraint(fields=('batch', 'read_from'), name='a_line_of_a_batch_is_submitted_once'),
        ),
    ]
