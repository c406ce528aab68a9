"""Answers that are given again, what hooks decided about calls, and which lines of batches they refused."""

import django.contrib.postgres.fields
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('openai_api', '0004_aliases_and_rules'),
    ]

    operations = [
        migrations.CreateModel(
            name='CachedCall',
            fields=[
                ('key', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('job_id', models.BigIntegerField(db_index=True)),
                ('hits', models.IntegerField(default=0)),
                ('expires_at', models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name='HookDecision',
            fields=[
                ('job_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('notes', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None)),
                ('is_decided', models.BooleanField(default=False)),
                ('status', models.SmallIntegerField(null=True)),
                ('answer', models.JSONField(null=True)),
                ('written_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), db_index=True)),
            ],
        ),
        migrations.AddField(
            model_name='slice',
            name='refused',
            field=models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
        ),
    ]
