"""Deaths are kept in quarters: what was counted before is a quarter each."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0006_errors_of_clusters")]

    operations = [
        migrations.AlterField(
            "due",
            "deaths",
            models.PositiveSmallIntegerField(
                db_default=0,
                help_text="Quarters of deaths of the process that ran this mutation; a restart of the server is one.",
            ),
        ),
    ]
