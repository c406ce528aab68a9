"""Which model wrote an answer. No row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('chat', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='answer',
            name='model_name',
            field=models.CharField(blank=True, db_default='', help_text='Which model wrote it, as the worker says.', max_length=100, verbose_name='model'),
        ),
    ]
