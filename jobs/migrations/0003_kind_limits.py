"""A kind's own limit: what a kind's jobs take of it, and what a job took."""

from django.conf import settings
from django.db import migrations, models

# The guard of 0002, which names its columns, with those of this migration beside them.
_COLUMNS = (
    *("id", "kind", "queue", "status", "priority", "unique_key", "created_at", "run_at", "expires_at"),
    *("max_attempts", "failures", "timeout_s", "retry_on_timeout", "excluded_workers", "excluded_until", "fence", "worker_id"),
    *("worker_name", "claimed_at", "next_seq", "progress", "detail", "ended_at"),
)
_ADDED = ("limit_name", "limit_key", "limit_count", "limit_until")


def _guard(columns: tuple[str, ...]) -> str:
    old, new = (", ".join(f"{row}.{column}" for column in columns) for row in ("OLD", "NEW"))
    return f"""
DROP TRIGGER an_ended_job_is_never_changed ON jobs_job;
CREATE TRIGGER an_ended_job_is_never_changed BEFORE UPDATE ON jobs_job FOR EACH ROW
WHEN (OLD.ended_at IS NOT NULL AND ({old}) IS DISTINCT FROM ({new}))
EXECUTE FUNCTION jobs_refuse('an ended job is never changed');
"""


class Migration(migrations.Migration):
    """Columns, their constraints, and the guard of ended jobs."""

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("jobs", "0002_guards"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="limit_count",
            field=models.FloatField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="limit_key",
            field=models.CharField(blank=True, editable=False, max_length=50, null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="limit_name",
            field=models.CharField(blank=True, editable=False, max_length=100, null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="limit_until",
            field=models.DateTimeField(blank=True, editable=False, help_text="When the tokens it reserved have come in.", null=True),
        ),
        migrations.AddField(
            model_name="kind",
            name="limit",
            field=models.CharField(blank=True, help_text="The rate limit that each of its jobs takes from.", max_length=100, null=True),
        ),
        migrations.AddField(
            model_name="kind",
            name="limit_count",
            field=models.FloatField(default=1, help_text="How many tokens of it a job takes."),
        ),
        migrations.AddField(
            model_name="kind",
            name="limit_key",
            field=models.CharField(blank=True, choices=[("", "everybody"), ("owner", "owner")], default="", help_text="Whose tokens a job takes: everybody shares them, or each owner has as many.", max_length=10, verbose_name="limit per"),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(condition=models.Q(models.Q(("limit_count__gt", 0), ("limit_count__isnull", False), ("limit_name__isnull", False)), models.Q(("limit_count__isnull", True), ("limit_name__isnull", True), ("limit_key__isnull", True), ("limit_until__isnull", True)), _connector="OR"), name="job_says_how_much_it_took_exactly_when_it_took_of_a_limit"),
        ),
        migrations.AddConstraint(
            model_name="kind",
            constraint=models.CheckConstraint(condition=models.Q(("limit_count__gt", 0), ("limit_count__lt", 1000000000000000.0), ("limit_key__in", ["", "owner"])), name="kind_takes_a_positive_number_of_its_limit", violation_error_message="The number of tokens is positive and finite."),
        ),
        migrations.RunSQL(_guard((*_COLUMNS, *_ADDED)), _guard(_COLUMNS)),
    ]
