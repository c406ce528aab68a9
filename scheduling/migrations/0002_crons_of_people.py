"""Who says what a cron is: code, a person who changed it, or a person who made it. No row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('scheduling', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='cron',
            name='source',
            field=models.CharField(choices=[('code', 'code'), ('edited', 'edited'), ('person', 'person')], db_default='code', default='code', help_text='Whether code says what it is, a person who changed it, or a person who made it.', max_length=6),
        ),
    ]
