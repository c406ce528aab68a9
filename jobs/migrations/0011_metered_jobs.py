"""The API token that a job came with, and whether an app meters it. No row is rewritten."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_initial"),
        ("jobs", "0010_kept_uploads"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="is_metered",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="job",
            name="token",
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="accounts.apitoken"),
        ),
    ]
