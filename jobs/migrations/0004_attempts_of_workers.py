"""The failed attempts of a worker by time. While the index is built, attempts go on ending."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [('jobs', '0003_worker_facts')]

    operations = [
        AddIndexConcurrently(
            model_name='attempt',
            index=models.Index(models.F('worker'), models.F('ended_at'), name='jobs_attempts_of_worker'),
        ),
    ]
