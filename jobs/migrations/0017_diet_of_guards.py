"""Fewer and shorter guards of a job's row, no index by request, and indexes of an owner's and a group's waiting jobs that
no statement mistakes for that of all. While they are built, jobs go on."""

from django.contrib.postgres.operations import AddConstraintNotValid, RemoveIndexConcurrently, ValidateConstraint
from django.db import migrations, models
from django.db.models import F, OrderBy, Q

from postgres.schema import AddIndexInUse

_WAITS = Q(ended_at__isnull=True, lease_secret__isnull=True)
_LEASED = Q(
    *(Q((f"{column}__isnull", False)) for column in ("lease_secret", "lease_expires_at", "worker", "claimed_at")),
    fence__gte=1,
)
_LEASE = "job_has_a_lease_exactly_while_in_progress"
_DROPPED = (
    _LEASE,
    "job_in_progress_has_a_worker_and_a_claim",
    "job_progress_is_a_share",
    "job_failures_stay_within_max_attempts",
    "job_says_how_much_it_took_exactly_when_it_took_of_a_limit",
)


def _waiting_of(column):
    return AddIndexInUse(
        model_name="job",
        index=models.Index(
            F("queue"), F(column), F("excluded_workers"), OrderBy(F("priority"), descending=True), F("run_at"), F("id"),
            condition=_WAITS & Q((f"{column}__isnull", False)),
            name=f"jobs_waiting_of_{column}",
        ),
    )


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0016_living_jobs_of_requirement")]

    operations = [
        _waiting_of("owner"),
        _waiting_of("group"),
        *(
            RemoveIndexConcurrently(model_name="job", name=name)
            for name in ("jobs_claimable_by_owner", "jobs_claimable_by_group", "jobs_by_request")
        ),
        *(migrations.RemoveConstraint(model_name="job", name=name) for name in _DROPPED),
        AddConstraintNotValid(
            model_name="job",
            constraint=models.CheckConstraint(
                name=_LEASE,
                condition=(Q(status="in_progress") & _LEASED)
                | (~Q(status="in_progress") & Q(lease_secret__isnull=True)),
            ),
        ),
        ValidateConstraint(model_name="job", name=_LEASE),
    ]
