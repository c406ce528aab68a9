"""Flow templates: stored, named lists of jobs with placeholders, each start of which is a flow (docs/flows.md)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from core.refusal import existing, raised
from jobs.domain import flows as domain
from jobs.domain.kinds import Kind
from jobs.errors import UnknownTemplate
from jobs.models import FlowTemplate
from jobs.operations import submit
from jobs.operations.new_jobs import JobOptions, NewJob, check, recorded
from jobs.queries.submits import Stored
from postgres import transactions

Jobs = Sequence[Mapping[str, Any]]


class SubmittedFlow(NamedTuple):
    """The id of a flow, and those of its jobs in the order of their template."""

    id: int
    jobs: list[int]


def submit_flow(
    template: str | Jobs, /, *, by: User | None = None, owner: User | None = None, **values: object
) -> SubmittedFlow:
    """Submit the jobs of a flow template, by its name or as a list of such jobs, all of them or none.

    `values` stand for its placeholders; of a stored one those that are not named have their defaults. Raises
    UnknownTemplate, InvalidValue for values that do not fit, and as `submit`: NotUnique too, where a `unique_key` of
    one of its jobs is a living job's.
    """
    stored = store_flow(template, values, by=by, owner=owner)
    flow_id = stored[0].record.flow_id
    assert flow_id is not None  # each of them has a name
    return SubmittedFlow(flow_id, [one.id for one in stored])


@transactions.retried
def store_flow(
    template: str | Jobs, values: Mapping[str, Any], *, by: User | None, **options: Unpack[JobOptions]
) -> list[Stored]:
    """`submit_flow`, for who shows what was stored; `options` are those of all its jobs."""
    with transaction.atomic():
        answers = submit.store([cast("NewJob", {**one, **options}) for one in jobs_of(template, values)], by=by)
        return [raised(one) for one in answers]


def jobs_of(template: str | Jobs, values: Mapping[str, Any]) -> list[Any]:
    """The jobs that a start with these values submits. Raises UnknownTemplate and InvalidValue."""
    if isinstance(template, str):
        row = existing(FlowTemplate.objects.filter(pk=template).first(), UnknownTemplate(template=template[:100]))
        jobs, placeholders = row.jobs, row.placeholders
    else:
        jobs, placeholders = template, dict.fromkeys(values)
    domain.check_template(jobs, placeholders)
    limit_bytes: int = settings.JOBFARM["PAYLOAD_BYTES"]
    filled = domain.filled_template(jobs, placeholders, values, limit_bytes=limit_bytes)
    return [{"payload": None, **one} for one in filled]


def check_template(jobs: Any, placeholders: Any) -> None:
    """Raise what could keep every start of such a template from making a flow: InvalidValue (a circle among it), and
    UnknownKind, UnknownQueue and the like. What placeholders stand for is not known then."""
    domain.check_template(jobs, placeholders)
    kinds: dict[str, Kind] = {}
    fixed = [{"payload": None, **job, "tags": [one for one in job.get("tags", ()) if "{{" not in one]} for job in jobs]
    check(fixed, recorded(fixed, kinds), kinds, by=None)  # type: ignore[arg-type]  # checked above


def check_start(template: Any, values: Any, *, by: User | None = None) -> None:
    """Raise what a start with these values would raise, as far as that can be known before."""
    kinds: dict[str, Kind] = {}
    new = jobs_of(template, values)
    check(new, recorded(new, kinds), kinds, by=by)
