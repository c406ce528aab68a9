"""Cron.pause_reason: why the scheduler itself paused a cron. No row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduling', '0003_cron_missed_at'),
    ]

    operations = [
        migrations.AddField(
            model_name='cron',
            name='pause_reason',
            field=models.TextField(editable=False, help_text='Why the scheduler paused it, because it could not be fired. Empty: a person did.', null=True, verbose_name='reason'),
        ),
    ]
