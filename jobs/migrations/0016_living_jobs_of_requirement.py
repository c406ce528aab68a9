"""The living jobs of a requirement, and whose they are. While the index is built, jobs go on."""

from django.db import migrations, models

from postgres.schema import AddIndexInUse


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0015_requirements_in_use")]

    operations = [
        AddIndexInUse(
            model_name="job",
            index=models.Index(
                models.F("requirement"),
                models.F("owner"),
                condition=models.Q(("requirement__isnull", False), ("status__in", ["in_progress", "pending"])),
                name="jobs_living_of_requirement",
            ),
        ),
    ]
