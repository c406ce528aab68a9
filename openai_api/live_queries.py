"""Live queries of batches: what their pages show, and when that is stale."""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import User

from jobs import operations as jobs
from live.registry import Viewer, live_query
from openai_api import queries
from openai_api.models import Batch
from openai_api.operations.steps import ALL_BATCHES, topic

MEMBER: Final = "member"
OPERATOR: Final = "operator"
EVERYBODY: Final = 0  # in place of a person: all batches
MOST_LISTED: Final = 100
LINES: Final = 50  # on a page
_shown = partial(live_query, audiences=(MEMBER, OPERATOR))


@_shown("openai-batches", topics=lambda **_: [ALL_BATCHES], at_most_every_s=1.0)
def batches(*, whose: int) -> Mapping[str, Any]:
    """The newest batches of one person, or of all."""
    rows = Batch.objects.select_related("owner").order_by("-created_at", "pk")
    rows = rows if whose == EVERYBODY else rows.filter(owner_id=whose)
    return {"rows": [_entry(row) for row in rows[:MOST_LISTED]], "most": MOST_LISTED}


@_shown("openai-batch", topics=lambda batch_id: [topic(batch_id)], at_most_every_s=0.5)
def batch(*, batch_id: str) -> Mapping[str, Any] | None:
    row = _find(batch_id)
    return None if row is None else {"row": _entry(row), "errors": row.errors[:MOST_LISTED]}


@_shown("openai-batch-lines", topics=lambda batch_id, **_: [topic(batch_id)], at_most_every_s=1.0)
def lines(*, batch_id: str, page: int) -> Mapping[str, Any] | None:
    """The jobs of a page of a batch's lines, and how they stand."""
    row = _find(batch_id)
    if row is None:
        return None
    first = max(0, page) * LINES
    pairs = list(islice(queries.line_jobs(row.pk, first=first), LINES))
    statuses = jobs.statuses([job_id for _, job_id in pairs])
    shown = [{"name": name, "job_id": job_id, "status": statuses.get(job_id)} for name, job_id in pairs]
    return {"lines": shown, "first": first + 1, "last": first + len(shown), "batch": row}


def _find(batch_id: str) -> Batch | None:
    try:
        return queries.batch(UUID(batch_id))
    except ValueError:
        return None


def _entry(row: Batch) -> dict[str, Any]:
    ended = row.completed + row.failed
    return {"batch": row, "share": ended / row.total if row.total else None, "ended": ended}


def _audience(user: Any) -> str | None:
    if not isinstance(user, User) or not user.is_active:
        return None
    return OPERATOR if jobs.sees_all(user) else MEMBER


@batches.may_see
def _may_list(viewer: Viewer, *, whose: int) -> str | None:
    audience = _audience(viewer.user)
    return audience if audience == OPERATOR or whose == viewer.user.pk else None


@batch.may_see
def _may_see(viewer: Viewer, *, batch_id: str, page: int = 0) -> str | None:  # noqa: ARG001  # of one or of its lines
    row, audience = _find(batch_id), _audience(viewer.user)
    return audience if row is not None and (audience == OPERATOR or row.owner_id == viewer.user.pk) else None


lines.may_see(_may_see)
