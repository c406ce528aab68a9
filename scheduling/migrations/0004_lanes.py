"""The queue is read in lanes and no longer written by a hand-out."""

from django.db import migrations, models

# A row of the queue is inserted and deleted, and changed only when a run came to nothing: no room for new versions.
STORAGE = "ALTER TABLE scheduling_due SET (fillfactor = 100)"
STORAGE_BEFORE = "ALTER TABLE scheduling_due SET (fillfactor = 70)"


class Migration(migrations.Migration):
    """Lanes (kind, queue, priority) with their rows in order; collisions and deaths of mutations in place of hand-outs."""

    dependencies = [("scheduling", "0003_handed")]

    operations = [
        migrations.RemoveIndex(model_name="due", name="scheduling_due_next"),
        migrations.RemoveField(model_name="due", name="handed_by"),
        migrations.RemoveField(model_name="due", name="deliveries"),
        migrations.AddField(
            model_name="due",
            name="collisions",
            field=models.PositiveIntegerField(
                db_default=0, help_text="Runs of a mutation that were rolled back because they collided."
            ),
        ),
        migrations.AddField(
            model_name="due",
            name="colliding_statement",
            field=models.TextField(blank=True, help_text="The statement that collided last.", null=True),
        ),
        migrations.AddField(
            model_name="due",
            name="deaths",
            field=models.PositiveSmallIntegerField(
                db_default=0, help_text="How often the process that ran this mutation died of it."
            ),
        ),
        migrations.AlterField(
            model_name="due",
            name="next_at",
            field=models.DateTimeField(
                help_text="Not run before this moment: when it is due, or may be tried again."
            ),
        ),
        migrations.AddIndex(
            model_name="due",
            index=models.Index(
                "kind", "queue", "priority", "next_at", "function_id", name="scheduling_due_lanes"
            ),
        ),
        migrations.AddIndex(
            model_name="due",
            index=models.Index(
                "collisions", condition=models.Q(("collisions__gt", 0)), name="scheduling_due_colliding"
            ),
        ),
        migrations.AlterField(
            model_name="cluster",
            name="handed",
            field=models.BigIntegerField(db_default=0, help_text="How many tasks it has dispatched."),
        ),
        migrations.RunSQL(STORAGE, STORAGE_BEFORE),
    ]
