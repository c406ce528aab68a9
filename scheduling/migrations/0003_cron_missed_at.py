"""Cron.missed_at: when a fire time was last missed, for alerts. No row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduling', '0002_crons_of_people'),
    ]

    operations = [
        migrations.AddField(
            model_name='cron',
            name='missed_at',
            field=models.DateTimeField(editable=False, help_text='When it was last seen that a fire time had passed while no cluster was running.', null=True, verbose_name='last missed'),
        ),
    ]
