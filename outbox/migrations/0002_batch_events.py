"""Events of batches may be asked for. No row is rewritten."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('outbox', '0001_initial'),
    ]

    operations = [
        migrations.AlterField(
            model_name='endpoint',
            name='events',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('*', '*'), ('job.*', 'job.*'), ('batch.*', 'batch.*'), ('queue.*', 'queue.*'), ('cron.*', 'cron.*'), ('delivery.*', 'delivery.*'), ('alert.*', 'alert.*'), ('job.succeeded', 'job.succeeded'), ('job.failed', 'job.failed'), ('job.canceled', 'job.canceled'), ('job.timed_out', 'job.timed_out'), ('job.lost', 'job.lost'), ('batch.completed', 'batch.completed'), ('batch.failed', 'batch.failed'), ('batch.expired', 'batch.expired'), ('batch.cancelled', 'batch.cancelled'), ('queue.paused', 'queue.paused'), ('queue.resumed', 'queue.resumed'), ('cron.failed', 'cron.failed'), ('delivery.dead', 'delivery.dead'), ('alert.firing', 'alert.firing'), ('alert.resolved', 'alert.resolved'), ('outbox.test', 'outbox.test')], max_length=100), help_text='Types of events; job.* is all of a family, * is all.', size=None),
        ),
    ]
