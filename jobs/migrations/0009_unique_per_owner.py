"""A unique key is its owner's, and so is an idempotency key (docs/adr/0049)."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from jobs.domain.states import LIVE

# A job comes to have no owner when its owner is deleted. Those without one share a space of keys, the site's own: two
# people with the same key could not both be deleted, and what the site submits would be refused for a stranger's job.
# The claim and the heartbeats do not name the column, so they never come here.
KEY_GOES_WITH_OWNER = """
CREATE FUNCTION jobs_forget_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.unique_key := NULL;
    RETURN NEW;
END $$;
CREATE TRIGGER a_key_goes_with_its_owner BEFORE UPDATE OF owner_id ON jobs_job FOR EACH ROW
WHEN (OLD.owner_id IS NOT NULL AND NEW.owner_id IS NULL AND NEW.ended_at IS NULL)
EXECUTE FUNCTION jobs_forget_key();
"""

KEY_STAYS = """
DROP TRIGGER a_key_goes_with_its_owner ON jobs_job;
DROP FUNCTION jobs_forget_key();
"""


class Migration(migrations.Migration):
    """Another unique constraint in place of the one by kind and key, which refused more: no row can break it."""

    dependencies = [
        ("jobs", "0008_asked_queues"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(
                name="only_one_live_job_per_owner_kind_and_unique_key",
                fields=["kind", "unique_key", "owner"],
                condition=models.Q(status__in=sorted(LIVE), unique_key__isnull=False),
                nulls_distinct=False,
            ),
        ),
        migrations.RemoveConstraint(model_name="job", name="only_one_live_job_per_kind_and_unique_key"),
        migrations.RunSQL(KEY_GOES_WITH_OWNER, KEY_STAYS),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "owner_id", "key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("key", models.CharField(db_collation="C", max_length=255)),
                ("fingerprint", models.BinaryField(help_text="SHA-256 of what was asked for.")),
                ("created_at", models.DateTimeField()),
                (
                    "job_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(null=True),
                        default=list,
                        help_text="The job of each entry; of one left out, its twin.",
                        size=None,
                    ),
                ),
                (
                    "left_out",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.SmallIntegerField(),
                        default=list,
                        help_text="Places of the entries that had a twin, from 0.",
                        size=None,
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(models.F("created_at"), name="jobs_idempotency_keys_by_age")],
            },
        ),
    ]
