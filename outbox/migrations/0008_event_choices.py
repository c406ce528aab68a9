"""Events of accounts at identity providers may be asked for, and a further event is no migration. No row is rewritten."""

import django.contrib.postgres.fields
from django.db import migrations, models

import outbox.domain.messages


class Migration(migrations.Migration):

    dependencies = [
        ('outbox', '0007_owner_events'),
    ]

    operations = [
        migrations.AlterField(
            model_name='endpoint',
            name='events',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=outbox.domain.messages.choices, max_length=100), help_text='Types of events; job.* is all of a family, * is all.', size=None),
        ),
    ]
