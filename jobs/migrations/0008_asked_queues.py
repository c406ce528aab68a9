"""Which queues a worker asks for, and who paused a queue: what the sentences about a waiting job say."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Columns that may be empty: PostgreSQL writes no row for them."""

    dependencies = [("jobs", "0007_leases"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="paused_by",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="polled_at",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.DateTimeField(), editable=False, null=True, size=None
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="polled_queues",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=100), editable=False, null=True, size=None
            ),
        ),
    ]
