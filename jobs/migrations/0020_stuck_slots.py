"""A worker says which of its slots take no job. A column with a default: no row is rewritten."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("jobs", "0019_leaving_workers")]

    operations = [
        migrations.AddField(
            model_name="workerfacts",
            name="stuck",
            field=ArrayField(
                models.BigIntegerField(),
                db_default=[],
                default=list,
                help_text="Jobs that were taken from it and whose handlers run on in their slots.",
            ),
        ),
    ]
