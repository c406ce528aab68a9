"""Tokens of attempts that did not say what they used are estimated. A column with a default: no row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('metering', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='reading',
            name='is_estimated',
            field=models.BooleanField(db_default=False, default=False, help_text='Of what it wrote: its result does not say what it used.'),
        ),
    ]
