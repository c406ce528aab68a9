"""A worker says that it ends. A column with a default: no row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("jobs", "0018_queues_of_members")]

    operations = [
        migrations.AddField(
            model_name="workerfacts",
            name="leaving",
            field=models.BooleanField(db_default=False, default=False, help_text="It ended, as it said itself."),
        ),
    ]
