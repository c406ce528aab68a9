"""What a failing endpoint answered last. A default that the database has: no row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('outbox', '0002_batch_events'),
    ]

    operations = [
        migrations.AddField(
            model_name='endpoint',
            name='last_failure',
            field=models.TextField(db_default='', default='', editable=False, help_text='What the last attempt came to, while it fails.'),
        ),
    ]
