"""Leases that are confirmed, attempts that are counted, calls that may be repeated, and what the farm could hear."""

from django.conf import settings
from django.db import migrations, models

# The guard of 0002 and 0003, with the columns of this migration beside theirs.
_COLUMNS = (
    *("id", "kind", "queue", "status", "priority", "unique_key", "created_at", "run_at", "expires_at"),
    *("max_attempts", "failures", "timeout_s", "retry_on_timeout", "excluded_workers", "excluded_until", "fence", "worker_id"),
    *("worker_name", "claimed_at", "next_seq", "progress", "detail", "ended_at"),
    *("limit_name", "limit_key", "limit_count", "limit_until"),
)
_ADDED = ("attempt", "confirmed_fence", "last_secret", "releases", "request", "retry_when_lost")

# What there is was counted by claims. A claim that was given back is no attempt; every other one was confirmed.
_COUNT = """
UPDATE jobs_attempt SET outcome = CASE outcome WHEN 'lease_expired' THEN 'lost' WHEN 'overran' THEN 'timed_out' END
WHERE outcome IN ('lease_expired', 'overran');
UPDATE jobs_attempt AS attempt SET attempt = counted.number
FROM (SELECT id, row_number() OVER (PARTITION BY job_id ORDER BY number) AS number
      FROM jobs_attempt WHERE outcome <> 'released') AS counted
WHERE counted.id = attempt.id AND counted.number <= 32767;
UPDATE jobs_job SET confirmed_fence = fence,
    attempt = failures + (status IN ('in_progress', 'success'))::integer
WHERE fence > 0;
"""
_NAMES_BACK = """
UPDATE jobs_attempt SET outcome = CASE outcome WHEN 'lost' THEN 'lease_expired' WHEN 'timed_out' THEN 'overran' END
WHERE outcome IN ('lost', 'timed_out');
"""


def _guard(columns: tuple[str, ...]) -> str:
    old, new = (", ".join(f"{row}.{column}" for column in columns) for row in ("OLD", "NEW"))
    return f"""
DROP TRIGGER an_ended_job_is_never_changed ON jobs_job;
CREATE TRIGGER an_ended_job_is_never_changed BEFORE UPDATE ON jobs_job FOR EACH ROW
WHEN (OLD.ended_at IS NOT NULL AND ({old}) IS DISTINCT FROM ({new}))
EXECUTE FUNCTION jobs_refuse('an ended job is never changed');
"""


class Migration(migrations.Migration):
    """Columns, an index, the row that says since when the farm hears."""

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('jobs', '0006_offspring'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Hearing',
            fields=[
                ('id', models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('since', models.DateTimeField()),
                ('until', models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name='attempt',
            name='attempt',
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='attempt',
            name='secret',
            field=models.UUIDField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='attempt',
            field=models.PositiveSmallIntegerField(db_default=0, default=0, help_text='Number of the current attempt, or the last. What was given back or never confirmed is none.'),
        ),
        migrations.AddField(
            model_name='job',
            name='confirmed_fence',
            field=models.BigIntegerField(db_default=0, default=0, help_text='Number of the last claim whose worker spoke for the job; 0: no worker ever did.'),
        ),
        migrations.AddField(
            model_name='job',
            name='last_secret',
            field=models.UUIDField(blank=True, editable=False, help_text='Secret of the lease that ended last.', null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='releases',
            field=models.PositiveSmallIntegerField(db_default=0, default=0, help_text='How often in a row it was given back.'),
        ),
        migrations.AddField(
            model_name='job',
            name='request',
            field=models.UUIDField(blank=True, editable=False, help_text='Which call of its worker claimed it.', null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='retry_when_lost',
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.AddField(
            model_name='kind',
            name='retry_when_lost',
            field=models.BooleanField(db_default=True, default=True, help_text='Another worker tries again when the one that had it died or cannot be heard.'),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='outcome',
            field=models.CharField(choices=[('failed', 'failed'), ('lost', 'lost'), ('timed_out', 'timed out'), ('released', 'released'), ('canceled', 'canceled')], max_length=13),
        ),
        migrations.AlterField(
            model_name='job',
            name='failures',
            field=models.PositiveSmallIntegerField(default=0, help_text='Attempts that failed, were lost or took too long so far.'),
        ),
        migrations.AlterField(
            model_name='kind',
            name='retry_on_timeout',
            field=models.BooleanField(default=False, help_text='Try again when a run took longer than its timeout.'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('request'), condition=models.Q(('status', 'in_progress'), ('request__isnull', False)), name='jobs_by_request'),
        ),
        migrations.AddConstraint(
            model_name='hearing',
            constraint=models.CheckConstraint(condition=models.Q(('id', 1)), name='there_is_one_hearing'),
        ),
        migrations.RunSQL(_COUNT, _NAMES_BACK),
        migrations.RunSQL(_guard((*_COLUMNS, *_ADDED)), _guard(_COLUMNS)),
    ]
