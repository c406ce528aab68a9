"""Whose worker named a queue first. No row is rewritten."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("jobs", "0017_diet_of_guards"),
    ]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="made_by",
            field=models.ForeignKey(
                blank=True, db_constraint=False, db_index=False, editable=False, null=True,
                on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
