"""Which functions a job's moves scheduled (docs/adr/0032)."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """A table of its own: jobs without such functions, which is nearly all, have no row in it."""

    dependencies = [("jobs", "0005_traceparent")]

    operations = [
        migrations.CreateModel(
            name="Offspring",
            fields=[
                ("function_id", models.BigIntegerField(primary_key=True, serialize=False)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="offspring",
                        to="jobs.job",
                    ),
                ),
            ],
        ),
    ]
