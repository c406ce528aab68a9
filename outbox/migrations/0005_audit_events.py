"""Events of the audit log may be asked for. No row is rewritten."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('outbox', '0004_due_index'),
    ]

    operations = [
        migrations.AlterField(
            model_name='endpoint',
            name='events',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('*', '*'), ('job.*', 'job.*'), ('batch.*', 'batch.*'), ('queue.*', 'queue.*'), ('cron.*', 'cron.*'), ('delivery.*', 'delivery.*'), ('alert.*', 'alert.*'), ('audit.*', 'audit.*'), ('job.succeeded', 'job.succeeded'), ('job.failed', 'job.failed'), ('job.canceled', 'job.canceled'), ('job.timed_out', 'job.timed_out'), ('job.lost', 'job.lost'), ('batch.completed', 'batch.completed'), ('batch.failed', 'batch.failed'), ('batch.expired', 'batch.expired'), ('batch.cancelled', 'batch.cancelled'), ('queue.paused', 'queue.paused'), ('queue.resumed', 'queue.resumed'), ('cron.failed', 'cron.failed'), ('delivery.dead', 'delivery.dead'), ('alert.firing', 'alert.firing'), ('alert.resolved', 'alert.resolved'), ('audit.log_in', 'audit.log_in'), ('audit.log_in_failed', 'audit.log_in_failed'), ('audit.log_out', 'audit.log_out'), ('audit.password_changed', 'audit.password_changed'), ('audit.second_factor_added', 'audit.second_factor_added'), ('audit.second_factor_removed', 'audit.second_factor_removed'), ('audit.token_created', 'audit.token_created'), ('audit.token_revoked', 'audit.token_revoked'), ('audit.token_from_new_address', 'audit.token_from_new_address'), ('audit.link_created', 'audit.link_created'), ('audit.rights_changed', 'audit.rights_changed'), ('audit.groups_changed', 'audit.groups_changed'), ('audit.added', 'audit.added'), ('audit.changed', 'audit.changed'), ('audit.deleted', 'audit.deleted'), ('outbox.test', 'outbox.test')], max_length=100), help_text='Types of events; job.* is all of a family, * is all.', size=None),
        ),
    ]
