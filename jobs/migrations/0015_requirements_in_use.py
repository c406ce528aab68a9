"""Sets of conditions that no living job has are told from those that claims look at. No row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0014_jobs_unconfirmed")]
    is_safe_because = "a farm has at most 1,000 requirements"

    operations = [
        migrations.AddField(
            model_name="requirement",
            name="retired_at",
            field=models.DateTimeField(help_text="Since then no living job has it.", null=True),
        ),
        migrations.AddIndex(
            model_name="requirement",
            index=models.Index(
                condition=models.Q(("retired_at__isnull", True)), fields=["id"], name="jobs_requirements_in_use"
            ),
        ),
    ]
