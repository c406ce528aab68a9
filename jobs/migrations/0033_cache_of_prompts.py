from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0032_nobody_saves_up")]

    operations = [
        migrations.AddField(
            "workerfacts",
            "cache_used",
            models.FloatField(null=True, help_text="Which share of its server's cache of prompts is in use."),
        )
    ]
