"""Calls whose callers went away a moment ago. A new table: no row is rewritten."""


import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('openai_api', '0002_token_of_a_batch'),
    ]

    operations = [
        migrations.CreateModel(
            name='LeftCall',
            fields=[
                ('job_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('owner_id', models.IntegerField()),
                ('fingerprint', models.CharField(max_length=64)),
                ('left_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
    ]
