"""Where a bulk action was asked for, and what its jobs failed of. Old code that inserts a row leaves both empty."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0011_metered_jobs"),
    ]

    operations = [
        migrations.AddField(
            model_name="bulk",
            name="back",
            field=models.TextField(blank=True, db_default="", default="", help_text="The page that it was asked on."),
        ),
        migrations.AddField(
            model_name="bulk",
            name="error",
            field=models.TextField(blank=True, db_default="", default="", help_text="What all of the jobs failed of."),
        ),
    ]
