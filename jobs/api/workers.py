"""What workers call. Each call is one verb of `jobs.protocol.verbs`."""

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Router, Status
from ninja.params import functions as parameters

from core.api import documented
from jobs import http, operations
from jobs.api import documents
from jobs.domain.leases import Lease
from jobs.models import Worker
from jobs.protocol import hello as introductions
from jobs.protocol import jobs as protocol
from jobs.protocol import verbs
from observing import fields

router = Router(auth=http.WorkerKey(), tags=["Workers"])


def _worker(request: HttpRequest) -> Worker:
    worker: Worker = request.auth  # type: ignore[attr-defined]  # set by ninja
    return worker


@router.post("/claim", **documented("Claim jobs", documents.CLAIM, verbs.Claimed, has_body=True))
def claim(request: HttpRequest, body: verbs.Claim) -> HttpResponse:
    """Claim once; whoever waits, waits outside of Django, and needs to know for what."""
    claimed = verbs.claim(_worker(request), body)
    if not claimed.jobs and not body.wait:
        http.count_empty_claim(_worker(request))
    response = http.answered(claimed)
    if len(claimed.jobs) == 1:
        fields.note(job_id=claimed.jobs[0].id)
    if not claimed.jobs:
        interest = verbs.interest(_worker(request), body.queues)
        response[http.WAITS_FOR] = http.waits_for(interest, worker_id=_worker(request).pk)
    return response


@router.post("/hello", **documented("Say what you are", documents.HELLO, introductions.Welcome, has_body=True))
def hello(request: HttpRequest, body: introductions.Hello) -> introductions.Welcome:
    return introductions.hello(_worker(request), body)


@router.post(
    "/jobs/{jobid:job_id}/heartbeat",
    **documented("Say that you are alive, and how far you are", documents.HEARTBEAT, verbs.Renewed, has_body=True),
)
def heartbeat(request: HttpRequest, job_id: int, body: verbs.Heartbeat) -> verbs.Renewed:
    return verbs.heartbeat(_worker(request), job_id, body)


@router.post(
    "/jobs/{jobid:job_id}/output", **documented("Append output", documents.OUTPUT, verbs.Written, has_body=True)
)
def write_output(request: HttpRequest, job_id: int, body: verbs.Output) -> verbs.Written:
    return verbs.write_output(_worker(request), job_id, body)


@router.put(
    "/jobs/{jobid:job_id}/files/{name}",
    openapi_extra=documents.ANY_BYTES,
    **documented("Hand in a result file", documents.PUT_FILE, protocol.ResultFile, status=201),
)
def put_file(
    request: HttpRequest,
    job_id: int,
    name: str,
    lease: Annotated[str, parameters.Query(..., description="The lease of the job.")],
) -> Status[protocol.ResultFile]:
    http.refuse_unknown_parameters(request, ["lease"])
    held = Lease.parse(lease)
    with http.received(request) as content:
        stored = operations.put_file(_worker(request), job_id, held, name=name, content=content)
    return Status(201, protocol.file(stored))


@router.api_operation(["HEAD"], "/jobs/{jobid:job_id}/inputs/{name}", response=Any, include_in_schema=False)
@router.get(
    "/jobs/{jobid:job_id}/inputs/{name}",
    openapi_extra=documents.SOME_BYTES,
    **documented("Fetch an input file", documents.GET_INPUT_AS_WORKER, Any),
)
def get_input(
    request: HttpRequest,
    job_id: int,
    name: str,
    lease: Annotated[str, parameters.Query(..., description="The lease of the job.")],
) -> HttpResponseBase:
    http.refuse_unknown_parameters(request, ["lease"])
    return http.sent(request, operations.read_input(_worker(request), job_id, Lease.parse(lease), name=name))


@router.post(
    "/jobs/{jobid:job_id}/finish",
    **documented("Hand in a job, and take the next", documents.FINISH, verbs.Ended, has_body=True),
)
def finish(request: HttpRequest, job_id: int, body: verbs.Finish) -> HttpResponse:
    return http.answered(verbs.finish(_worker(request), job_id, body))


@router.post(
    "/jobs/{jobid:job_id}/release", **documented("Give a job back", documents.RELEASE, verbs.Released, has_body=True)
)
def release(request: HttpRequest, job_id: int, body: verbs.Release) -> verbs.Released:
    return verbs.release(_worker(request), job_id, body)


@router.post(
    "/unclaim", **documented("Give back jobs that were not begun", documents.UNCLAIM, verbs.Unclaimed, has_body=True)
)
def unclaim(request: HttpRequest, body: verbs.Unclaim) -> verbs.Unclaimed:
    """Give back jobs that no call has named since they were claimed."""
    return verbs.unclaim(_worker(request), body)


@router.post(
    "/finish",
    **documented("Hand in several jobs, and take the next", documents.FINISH_MANY, verbs.EndedMany, has_body=True),
)
def finish_many(request: HttpRequest, body: verbs.FinishMany) -> HttpResponse:
    return http.answered(verbs.finish_many(_worker(request), body))
