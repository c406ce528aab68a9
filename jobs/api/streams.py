"""Event streams of jobs: whether the caller may follow them. What happens comes from elsewhere (jobs.waiting)."""

import json
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from core.api import caller, documented
from jobs import http
from jobs.api import documents
from jobs.api.clients import READ
from jobs.domain.filters import ids_of
from jobs.errors import InvalidValue, NotFound
from jobs.queries import reads

MOST = 50  # jobs of one stream: the id of each of its events says how far all of them are
router = Router()


@router.get(
    "/jobs/events",
    auth=READ,
    openapi_extra=documents.EVENT_STREAM,
    **documented("Follow many jobs", documents.EVENTS_OF_MANY, Any),
)
def events_of_many(
    request: HttpRequest, ids: Annotated[str, Query(max_length=1000, description="Their ids: 7,8,9.")]
) -> HttpResponse:
    wanted = list(dict.fromkeys(ids_of(ids)))
    if not 1 <= len(wanted) <= MOST or len(ids_of(ids)) != ids.count(",") + 1:
        raise InvalidValue(field="ids", why=f"one to {MOST} ids of jobs, with commas between them")
    return _allowed(request, wanted, jobs=wanted)


@router.get(
    "/jobs/{jobid:job_id}/events",
    auth=READ,
    openapi_extra=documents.EVENT_STREAM,
    **documented("Follow a job", documents.EVENTS, Any),
)
def events(request: HttpRequest, job_id: int) -> HttpResponse:
    return _allowed(request, [job_id], job=job_id)


def _allowed(request: HttpRequest, job_ids: list[int], **note: Any) -> HttpResponse:
    user = caller(request)
    if reads.visible_to(user).filter(pk__in=job_ids).count() < len(job_ids):
        raise NotFound
    note["user"] = user.pk
    return HttpResponse(content_type="text/event-stream", headers={http.STREAMS: json.dumps(note)})
