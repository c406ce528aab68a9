"""Event streams of jobs: whether the caller may follow them. What happens comes from elsewhere (jobs.waiting)."""

from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Query

from core.api import Calls, Sample, caller
from jobs import http
from jobs.api.clients import READ
from jobs.domain.filters import ids_of
from jobs.errors import InvalidValue, NotFound
from jobs.queries import reads

MOST = 50  # jobs of one stream: the id of each of its events says how far all of them are
router = Calls()


@router.call("get", "/jobs/events", auth=READ, sample=Sample(query="ids=$JOB", is_stream=True))
def events_of_many(
    request: HttpRequest, ids: Annotated[str, Query(max_length=1000, description="Their ids: 7,8,9.")]
) -> HttpResponse:
    """Follow many jobs.

    The events of up to 50 jobs in one stream, as those of one job, each with the number of its `job`: a browser opens
    six connections to a host over HTTP/1.1, so a page that follows many jobs follows them by one. The stream closes
    when all have ended. The `id` of an event says how far all of them are. After a lost connection the `end` of a job
    that had ended comes again. 404 where one of them is not there, or not yours to see.
    """
    wanted = list(dict.fromkeys(ids_of(ids)))
    if not 1 <= len(wanted) <= MOST or len(ids_of(ids)) != ids.count(",") + 1:
        raise InvalidValue(field="ids", why=f"one to {MOST} ids of jobs, with commas between them")
    return _allowed(request, wanted, are_named=True)


@router.call("get", "/jobs/{jobid:job_id}/events", auth=READ, sample=Sample(is_stream=True))
def events(request: HttpRequest, job_id: int) -> HttpResponse:
    """Follow a job.

    Server-sent events, until the job has ended:

    * `job`: the job as JSON, without its payload, now and whenever it changed;
    * `output`: `{"fence": 1, "seq": 0, "text": "..."}`, every piece once;
    * `end`: `{"status": "success"}`; nothing comes after it. In a browser, close the EventSource then.

    Every event has an `id`. After a lost connection send the last one as `Last-Event-ID` (a browser does so by
    itself), and nothing is lost or repeated. A comment comes every 15 s, so that nobody takes the silence for a
    dead connection.
    """
    return _allowed(request, [job_id], are_named=False)


def _allowed(request: HttpRequest, job_ids: list[int], *, are_named: bool) -> HttpResponse:
    user = caller(request)
    if reads.visible_to(user).filter(pk__in=job_ids).count() < len(job_ids):
        raise NotFound
    followed = http.Followed(job_ids=job_ids, user_id=user.pk, are_named=are_named)
    return http.Noted(note=followed, content_type="text/event-stream")
