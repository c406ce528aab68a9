from django.db import migrations, models

from postgres.schema import AddIndexInUse


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('scheduling', '0007_quarters_of_deaths'),
    ]

    operations = [
        AddIndexInUse(
            model_name='scheduledfunction',
            index=models.Index(models.F('status'), models.F('ended_at'), condition=models.Q(('status__in', ['failed', 'unknown'])), name='scheduling_failed'),
        ),
        AddIndexInUse(
            model_name='scheduledfunction',
            index=models.Index(models.F('ended_at'), condition=models.Q(('status__in', ['failed', 'unknown']), ('cron__isnull', False)), name='scheduling_failed_firings'),
        ),
    ]
