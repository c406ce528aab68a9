"""What each process of the farm logged as errors lately, for the doctor."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0026_marks_of_a_member")]

    operations = [
        migrations.AddField(
            "process",
            "errors",
            ArrayField(models.TextField(), default=list, db_default=[], help_text="What it logged as errors lately."),
        )
    ]
