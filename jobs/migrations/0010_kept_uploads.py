"""Uploads that another app keeps for a time. No row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [('jobs', '0009_jobs_of_requirement')]

    operations = [
        migrations.AddField(
            model_name='upload',
            name='kept_until',
            field=models.DateTimeField(blank=True, editable=False, help_text='Until then it stays for what it was uploaded for.', null=True),
        ),
    ]
