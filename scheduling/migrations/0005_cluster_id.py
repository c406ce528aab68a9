"""A function's row names its cluster as the cluster's own row does, and a cluster counts what it dispatched."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    """PostgreSQL carries the index and the check over; only Django's state of them is written anew."""

    dependencies = [("scheduling", "0004_lanes")]

    operations = [
        migrations.RenameField("cluster", "handed", "dispatched"),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveIndex("scheduledfunction", "scheduling_running"),
                migrations.RemoveConstraint("scheduledfunction", "what_is_in_progress_has_a_start_and_a_cluster"),
            ]
        ),
        migrations.RenameField("scheduledfunction", "handed_by", "cluster_id"),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AddIndex(
                    "scheduledfunction",
                    models.Index("cluster_id", name="scheduling_running", condition=Q(state="in_progress")),
                ),
                migrations.AddConstraint(
                    "scheduledfunction",
                    models.CheckConstraint(
                        condition=~Q(state="in_progress")
                        | Q(started_at__isnull=False, cluster_id__isnull=False, ran_by__isnull=False),
                        name="what_is_in_progress_has_a_start_and_a_cluster",
                    ),
                ),
            ]
        ),
    ]
