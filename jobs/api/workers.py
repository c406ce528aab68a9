"""What workers call. Each call is one verb of `jobs.protocol.verbs`."""

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Router, Status
from ninja.params import functions as parameters

from jobs import http, operations
from jobs.api import documents
from jobs.domain.leases import Lease
from jobs.models import Worker
from jobs.protocol import hello as introductions
from jobs.protocol import jobs as protocol
from jobs.protocol import verbs
from jobs.protocol.clients import Problem
from observing import fields

router = Router(auth=http.WorkerKey(), tags=["Workers"])


def _worker(request: HttpRequest) -> Worker:
    worker: Worker = request.auth  # type: ignore[attr-defined]  # set by ninja
    return worker


@router.post(
    "/claim",
    response={200: verbs.Claimed, documents.REFUSALS: Problem},
    summary="Claim jobs",
    description=documents.CLAIM,
    openapi_extra=documents.with_body(documents.CLAIM),
)
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


@router.post(
    "/hello",
    response={200: introductions.Welcome, documents.REFUSALS: Problem},
    summary="Say what you are",
    description=documents.HELLO,
    openapi_extra=documents.with_body(documents.HELLO),
)
def hello(request: HttpRequest, body: introductions.Hello) -> introductions.Welcome:
    """Keep what a worker reports about itself."""
    return introductions.hello(_worker(request), body)


@router.post(
    "/jobs/{jobid:job_id}/heartbeat",
    response={200: verbs.Renewed, documents.REFUSALS: Problem},
    summary="Say that you are alive, and how far you are",
    description=documents.HEARTBEAT,
    openapi_extra=documents.with_body(documents.HEARTBEAT),
)
def heartbeat(request: HttpRequest, job_id: int, body: verbs.Heartbeat) -> verbs.Renewed:
    """Renew a lease."""
    return verbs.heartbeat(_worker(request), job_id, body)


@router.post(
    "/jobs/{jobid:job_id}/output",
    response={200: verbs.Written, documents.REFUSALS: Problem},
    summary="Append output",
    description=documents.OUTPUT,
    openapi_extra=documents.with_body(documents.OUTPUT),
)
def write_output(request: HttpRequest, job_id: int, body: verbs.Output) -> verbs.Written:
    """Append output."""
    return verbs.write_output(_worker(request), job_id, body)


@router.put(
    "/jobs/{jobid:job_id}/files/{name}",
    response={201: protocol.ResultFile, documents.REFUSALS: Problem},
    summary="Hand in a result file",
    description=documents.PUT_FILE,
    openapi_extra=documents.ANY_BYTES,
)
def put_file(
    request: HttpRequest,
    job_id: int,
    name: str,
    lease: Annotated[str, parameters.Query(..., description="The lease of the job.")],
) -> Status[protocol.ResultFile]:
    """Keep a result file."""
    http.refuse_unknown_parameters(request, ["lease"])
    held = Lease.parse(lease)
    with http.received(request) as content:
        stored = operations.put_file(_worker(request), job_id, held, name=name, content=content)
    return Status(201, protocol.file(stored))


@router.api_operation(["HEAD"], "/jobs/{jobid:job_id}/inputs/{name}", response=Any, include_in_schema=False)
@router.get(
    "/jobs/{jobid:job_id}/inputs/{name}",
    response={200: Any, documents.REFUSALS: Problem},
    summary="Fetch an input file",
    description=documents.GET_INPUT_AS_WORKER,
    openapi_extra=documents.SOME_BYTES,
)
def get_input(
    request: HttpRequest,
    job_id: int,
    name: str,
    lease: Annotated[str, parameters.Query(..., description="The lease of the job.")],
) -> HttpResponseBase:
    """An input file's bytes, for the lease's holder."""
    http.refuse_unknown_parameters(request, ["lease"])
    return http.sent(request, operations.read_input(_worker(request), job_id, Lease.parse(lease), name=name))


@router.post(
    "/jobs/{jobid:job_id}/finish",
    response={200: verbs.Ended, documents.REFUSALS: Problem},
    summary="Hand in a job, and take the next",
    description=documents.FINISH,
    openapi_extra=documents.with_body(documents.FINISH),
)
def finish(request: HttpRequest, job_id: int, body: verbs.Finish) -> HttpResponse:
    """Hand in one job."""
    return http.answered(verbs.finish(_worker(request), job_id, body))


@router.post(
    "/jobs/{jobid:job_id}/release",
    response={200: verbs.Released, documents.REFUSALS: Problem},
    summary="Give a job back",
    description=documents.RELEASE,
    openapi_extra=documents.with_body(documents.RELEASE),
)
def release(request: HttpRequest, job_id: int, body: verbs.Release) -> verbs.Released:
    """Give a job back."""
    return verbs.release(_worker(request), job_id, body)


@router.post(
    "/unclaim",
    response={200: verbs.Unclaimed, documents.REFUSALS: Problem},
    summary="Give back jobs that were not begun",
    description=documents.UNCLAIM,
    openapi_extra=documents.with_body(documents.UNCLAIM),
)
def unclaim(request: HttpRequest, body: verbs.Unclaim) -> verbs.Unclaimed:
    """Give back jobs that no call has named since they were claimed."""
    return verbs.unclaim(_worker(request), body)


@router.post(
    "/finish",
    response={200: verbs.EndedMany, documents.REFUSALS: Problem},
    summary="Hand in several jobs, and take the next",
    description=documents.FINISH_MANY,
    openapi_extra=documents.with_body(documents.FINISH_MANY),
)
def finish_many(request: HttpRequest, body: verbs.FinishMany) -> HttpResponse:
    """Hand in several jobs."""
    return http.answered(verbs.finish_many(_worker(request), body))
