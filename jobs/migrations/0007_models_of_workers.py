"""The models that workers announce. No row is rewritten."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [('jobs', '0006_input_files')]

    operations = [
        migrations.AddField(
            model_name='workerfacts',
            name='models',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), db_default=[], help_text="The models that it serves: names of OpenAI's API.", size=None),
        ),
    ]
