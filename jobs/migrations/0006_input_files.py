"""Input files: uploads, which jobs use them, and what they take of their owner's quotas. No row is rewritten."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Now

from postgres.schema import sql_file


class Migration(migrations.Migration):
    dependencies = [
        ('jobs', '0005_rollups_by_kind'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='body',
            name='inputs',
            field=models.JSONField(blank=True, editable=False, null=True),
        ),
        migrations.CreateModel(
            name='Upload',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('stored_as', models.CharField(editable=False, max_length=255)),
                ('size', models.BigIntegerField()),
                ('sha256', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(db_default=Now())),
                ('owner', models.ForeignKey(blank=True, db_constraint=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Input',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='inputs', to='jobs.job')),
                ('upload', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='uses', to='jobs.upload')),
            ],
        ),
        migrations.AddIndex(
            model_name='upload',
            index=models.Index(models.F('created_at'), name='jobs_uploads_by_age'),
        ),
        migrations.AddConstraint(
            model_name='input',
            constraint=models.UniqueConstraint(fields=('job', 'name'), name='an_input_name_is_used_once'),
        ),
        sql_file('jobs', '0006_input_files'),
    ]
