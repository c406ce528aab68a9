from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations, models

from postgres.schema import AddIndexInUse


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('outbox', '0003_last_failure'),
    ]

    operations = [
        AddIndexInUse(
            model_name='message',
            index=models.Index(condition=models.Q(('next_attempt_at__isnull', False), ('status', 'pending')), fields=['endpoint', 'next_attempt_at'], name='outbox_message_awaited'),
        ),
        RemoveIndexConcurrently(
            model_name='message',
            name='outbox_message_due',
        ),
    ]
