"""Which web processes and janitors are there (docs/adr/0047)."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    """A table of a few rows; nothing of it is on the way of a job."""

    dependencies = [("jobs", "0010_bounds")]

    operations = [
        migrations.CreateModel(
            name="Process",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("part", models.CharField(max_length=7)),
                ("host", models.CharField(max_length=200)),
                ("pid", models.IntegerField()),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(help_text="When it said that it ends.", null=True)),
            ],
        ),
    ]
