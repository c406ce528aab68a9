"""Slots are checked when they are written and not at the commit, where locks come in nobody's order (docs/adr/0044)."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """A queue's running jobs may be more than a smallint counts when it gets its first ceiling."""

    dependencies = [("jobs", "0011_presence")]

    operations = [
        migrations.RemoveConstraint(model_name="slot", name="slot_numbers_are_unique_in_a_queue"),
        migrations.AlterField(model_name="slot", name="n", field=models.PositiveIntegerField()),
        migrations.AlterField(
            model_name="slot",
            name="queue",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="slots",
                to="jobs.queue",
            ),
        ),
        migrations.AddConstraint(
            model_name="slot",
            constraint=models.UniqueConstraint(
                fields=("queue", "n"), name="slot_numbers_are_unique_in_a_queue"
            ),
        ),
    ]
