"""The trace that a job was submitted in travels with it to its worker."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """A column that may be empty: PostgreSQL writes no row for it."""

    dependencies = [("jobs", "0004_looking_back")]

    operations = [
        migrations.AddField(
            model_name="body",
            name="traceparent",
            field=models.CharField(
                blank=True,
                editable=False,
                help_text="The trace that it was submitted in.",
                max_length=55,
                null=True,
            ),
        ),
    ]
