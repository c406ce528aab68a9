"""What each cluster logged as errors lately, for the doctor."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0005_lanes")]

    operations = [
        migrations.AddField(
            "cluster",
            "errors",
            ArrayField(models.TextField(), default=list, db_default=[], help_text="What it logged as errors lately."),
        )
    ]
