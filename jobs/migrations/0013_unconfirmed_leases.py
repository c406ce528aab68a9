"""How often in a row no call named a job's lease. No row is rewritten, and none is read."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0012_the_page_of_a_bulk")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="unconfirmed",
            field=models.SmallIntegerField(db_default=0, default=0, help_text="How often in a row no call named its lease."),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="outcome",
            field=models.CharField(
                choices=[
                    ("failed", "failed"), ("lost", "lost"), ("timed_out", "timed out"), ("released", "released"),
                    ("canceled", "canceled"), ("unconfirmed", "unconfirmed"),
                ],
                max_length=13,
            ),
        ),
    ]
