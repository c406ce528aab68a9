"""TEMPORARY: the integrator's main has this table of its own (0007_leases)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """So that what writes it can be tested."""

    dependencies = [("jobs", "0010_presence")]

    operations = [
        migrations.CreateModel(
            name="Hearing",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField()),
            ],
        ),
    ]
