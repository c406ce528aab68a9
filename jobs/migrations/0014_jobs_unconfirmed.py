"""The living jobs whose leases nobody confirms, for the doctor. While the index is built, jobs go on."""

from django.db import migrations, models

from postgres.schema import AddIndexInUse


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0013_unconfirmed_leases")]

    operations = [
        AddIndexInUse(
            model_name="job",
            index=models.Index(
                models.F("id"),
                condition=models.Q(("status__in", ["in_progress", "pending"]), ("unconfirmed__gte", 2)),
                name="jobs_unconfirmed",
            ),
        ),
    ]
