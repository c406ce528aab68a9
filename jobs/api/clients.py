"""What clients call: submit, look, cancel, try again."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Router, Status
from ninja.params import functions as parameters

from accounts import http as people
from core.api import caller as _user
from core.api import documented
from jobs import http, operations
from jobs.api import documents
from jobs.domain.filters import Filters
from jobs.domain.reasons import FOR_OPERATORS, Reason, Remedy
from jobs.errors import JobDeleted, JobsError, NoSuchFile, NotAMember, NotFound, NotUnique
from jobs.models import Job
from jobs.protocol import clients
from jobs.protocol import jobs as protocol
from jobs.protocol.values import BIGINT, INTEGER
from jobs.queries import inputs, lists, reads, reports
from observing import fields

T = TypeVar("T")
Stored = dict[int, protocol.Job]
router = Router(tags=["Clients"])
SUBMIT, READ, OPERATE = map(people.callers, ("submit", "read", "operate"))
MOST_PIECES = 500
MOST_OUTPUT_CHARACTERS = 4_000_000

After = Annotated[int, parameters.Query(..., ge=-1, le=INTEGER, description="Pieces after this number.")]
Fence = Annotated[
    int | None, parameters.Query(..., ge=1, le=BIGINT, description="Of which attempt: `fence` of the job's `attempts`.")
]

IdempotencyKey = Annotated[
    str | None,
    parameters.Header(
        ..., alias="Idempotency-Key", min_length=1, max_length=255, pattern="^[ -~]+$",
        description="Any text, new for each request: a repeat with it within 24 hours submits nothing.",
    ),
]  # fmt: skip


@router.post(
    "/jobs", auth=SUBMIT, **documented("Submit a job", documents.SUBMIT, protocol.Job, status=201, has_body=True)
)
def submit(request: HttpRequest, body: clients.NewJob, idempotency_key: IdempotencyKey = None) -> Status[protocol.Job]:
    stored: Stored = {}
    return _submitted_once(
        request,
        idempotency_key,
        body,
        submit=lambda: [_raised(job) for job in _submitted(request, [body], stored)],
        stored=stored,
    )


@router.post(
    "/jobs/bulk",
    auth=SUBMIT,
    **documented("Submit many jobs", documents.SUBMIT_MANY, clients.Submitted, status=201, has_body=True),
)
def submit_many(
    request: HttpRequest, body: clients.NewJobs, idempotency_key: IdempotencyKey = None
) -> Status[clients.Submitted]:
    stored: Stored = {}
    answers = operations.once(
        http.repeatable(request, _user(request), idempotency_key, body),
        count=lambda: http.count_submitted(request, _user(request), jobs=len(body.jobs)),
        submit=lambda: _submitted(request, body.jobs, stored),
    )
    jobs = [_skipped(job) if isinstance(job, JobsError) else job for job in _answered(answers, stored)]
    return Status(201, clients.Submitted(jobs=jobs))


@router.get("/jobs", auth=READ, **documented("List jobs", documents.LIST, clients.Page))
def list_jobs(request: HttpRequest, filters: Query[clients.Filters]) -> clients.Page:
    http.refuse_unknown_parameters(request, clients.Filters.model_fields)
    rows = _filtered(protocol.visible_to(_user(request)), filters).order_by("-id")[: filters.limit + 1]
    jobs = [protocol.in_list(job) for job in rows]
    shown = jobs[: filters.limit]
    return clients.Page(jobs=shown, next=shown[-1].id if len(jobs) > filters.limit else None)


@router.get("/jobs/{jobid:job_id}", auth=READ, **documented("Look at a job", documents.SHOW, protocol.Job))
def show(request: HttpRequest, job_id: int) -> protocol.Job:
    return protocol.with_attempts(_visible(request, job_id).pk)


@router.get(
    "/jobs/{jobid:job_id}/output",
    auth=READ,
    **documented("Read a job's output", documents.READ_OUTPUT, clients.OutputPage),
)
def output(request: HttpRequest, job_id: int, after: After = -1, fence: Fence = None) -> clients.OutputPage:
    http.refuse_unknown_parameters(request, ["after", "fence"])
    job = _visible(request, job_id)
    number = (reports.fence_to_read(job.pk) or 0) if fence is None else fence
    page = reads.output_page(job.pk, attempt=number, after=after, most=MOST_PIECES, characters=MOST_OUTPUT_CHARACTERS)
    chunks = [clients.Piece(seq=chunk.seq, text=chunk.text) for chunk in page]
    next_seq = chunks[-1].seq + 1 if chunks else after + 1
    return clients.OutputPage(fence=number, chunks=chunks, next_seq=next_seq)


@router.api_operation(["HEAD"], "/jobs/{jobid:job_id}/files/{name}", auth=READ, response=Any, include_in_schema=False)
@router.get(
    "/jobs/{jobid:job_id}/files/{name}",
    auth=READ,
    openapi_extra=documents.SOME_BYTES,
    **documented("Get a result file", documents.GET_FILE, Any),
)
def get_file(request: HttpRequest, job_id: int, name: str, fence: Fence = None) -> HttpResponseBase:
    job = _visible(request, job_id)
    number = job.fence if fence is None else fence
    for stored in reads.files([job.pk])[job.pk]:
        if (stored.attempt, stored.name) == (number, name):
            return http.sent(request, stored)
    raise NotFound


@router.api_operation(["HEAD"], "/jobs/{jobid:job_id}/inputs/{name}", auth=READ, response=Any, include_in_schema=False)
@router.get(
    "/jobs/{jobid:job_id}/inputs/{name}",
    auth=READ,
    openapi_extra=documents.SOME_BYTES,
    **documented("Get an input file", documents.GET_INPUT, Any),
)
def get_input(request: HttpRequest, job_id: int, name: str) -> HttpResponseBase:
    stored = inputs.one(_visible(request, job_id).pk, name=name)
    if stored is None:
        raise NoSuchFile
    return http.sent(request, stored)


@router.post(
    "/jobs/{jobid:job_id}/cancel", auth=OPERATE, **documented("Cancel a job", documents.CANCEL, clients.Canceled)
)
def cancel(request: HttpRequest, job_id: int) -> clients.Canceled:
    canceled = operations.cancel(job_id, by=_user(request))
    return clients.Canceled(verdict=canceled.verdict, status=canceled.status)


@router.post(
    "/jobs/{jobid:job_id}/retry",
    auth=OPERATE,
    **documented("Try an ended job again", documents.RETRY, protocol.Job, status=201),
)
def retry(request: HttpRequest, job_id: int, idempotency_key: IdempotencyKey = None) -> Status[protocol.Job]:
    return _submitted_once(request, idempotency_key, submit=lambda: [operations.retry(job_id, by=_user(request))])


@router.post(
    "/jobs/{jobid:job_id}/run_now",
    auth=OPERATE,
    **documented("Let a job that is due later run now", documents.RUN_NOW, protocol.Job),
)
def run_now(request: HttpRequest, job_id: int) -> protocol.Job:
    return protocol.in_full([operations.run_now(job_id, by=_user(request)).pk])[0]


@router.post(
    "/jobs/{jobid:job_id}/priority",
    auth=OPERATE,
    **documented("Change the priority of a job that waits", documents.CHANGE_PRIORITY, protocol.Job, has_body=True),
)
def change_priority(request: HttpRequest, job_id: int, body: clients.NewPriority) -> protocol.Job:
    job = operations.change_priority(job_id, body.priority, by=_user(request))
    return protocol.in_full([job.pk])[0]


@router.get("/jobs/{jobid:job_id}/why", auth=READ, **documented("Why does it not run?", documents.WHY, clients.Reasons))
def why(request: HttpRequest, job_id: int) -> clients.Reasons:
    job, user = _visible(request, job_id), _user(request)
    hidden = frozenset() if reads.is_operator(user) else FOR_OPERATORS
    may_operate = reads.may_operate(user, job)
    reasons = reads.why_not_running(job.pk)
    return clients.Reasons(reasons=[_reason(reason, job, hidden=hidden, may_operate=may_operate) for reason in reasons])


def _reason(reason: Reason, job: Job, *, hidden: frozenset[str], may_operate: bool) -> clients.Reason:
    numbers = {name: value for name, value in reason.numbers.items() if name not in hidden}
    remedies = [_remedy(remedy, job, may_operate=may_operate) for remedy in reason.remedies]
    return clients.Reason(**{**numbers, "code": reason.code, "sentence": reason.sentence, "remedies": remedies})


def _remedy(remedy: Remedy, job: Job, *, may_operate: bool) -> clients.Remedy:
    is_ours = may_operate and remedy.call is not None
    return clients.Remedy(
        code=remedy.code,
        label=remedy.label,
        method="POST" if is_ours else None,
        path=f"{protocol.API}/jobs/{job.pk}/{remedy.call}" if is_ours else None,
    )


def _visible(request: HttpRequest, job_id: int) -> Job:
    job = reads.visible_to(_user(request)).filter(pk=job_id).first()
    if job is None:
        raise NotFound
    return job


def _new_job(request: HttpRequest, body: clients.NewJob, owner: User, groups: Mapping[str, Group]) -> operations.NewJob:
    """What the body asks for. A group that is not the owner's is refused whether it exists or not."""
    if body.group is not None and body.group not in groups:
        raise NotAMember
    return operations.NewJob(
        kind=body.kind,
        payload=body.payload,
        queue=body.queue,
        priority=body.priority,
        run_at=body.run_at,
        unique_key=body.unique_key,
        owner=owner,
        group=None if body.group is None else groups[body.group],
        files=body.files,
        callback_url=body.callback_url,
        requires=body.requires,
        prefers=body.prefers,
        token_id=people.token_id(request),
        may_wait=body.wait or http.may_wait(request),
    )


def _submitted_once(
    request: HttpRequest,
    idempotency_key: str | None,
    body: clients.NewJob | None = None,
    *,
    submit: Callable[[], Sequence[Job]],
    stored: Mapping[int, protocol.Job] = MappingProxyType({}),
) -> Status[protocol.Job]:
    """The one job that `submit` stores, or of a repeated request the one that the first was answered with."""
    [answer] = operations.once(
        http.repeatable(request, _user(request), idempotency_key, body),
        count=lambda: http.count_submitted(request, _user(request)),
        submit=submit,
    )
    job = _raised(_answered([answer], stored)[0])
    fields.note(job_id=job.id)
    return Status(201, job)


def _submitted(request: HttpRequest, bodies: Sequence[clients.NewJob], stored: Stored) -> list[Job | NotUnique]:
    """Submit them. Those that are stored are put into `stored` by their ids, so that none is read back but those with
    input files: of those only the database knows more."""
    user = _user(request)
    groups = {group.name: group for group in user.groups.all()} if any(body.group for body in bodies) else {}
    new_jobs = [_new_job(request, body, user, groups) for body in bodies]
    jobs = operations.submit_many(new_jobs, by=user)
    stored |= {
        job.pk: protocol.fresh(job, payload=new.payload, owner=new.owner, group=new.group)
        for new, job in zip(new_jobs, jobs, strict=True) if isinstance(job, Job) and not new.files
    }  # fmt: skip
    return jobs


def _answered(answers: Sequence[int | NotUnique], stored: Mapping[int, protocol.Job]) -> list[protocol.Job | JobsError]:
    """The jobs with these ids, in full: what this request stored, and of a repeat what the first one did, which may
    have been deleted since."""
    earlier = [answer for answer in answers if isinstance(answer, int) and answer not in stored]
    by_id = {**stored, **{job.id: job for job in protocol.in_full(earlier)}} if earlier else stored
    return [
        answer if isinstance(answer, NotUnique) else by_id.get(answer, JobDeleted(job=answer)) for answer in answers
    ]


def _raised(job: T | JobsError) -> T:
    if isinstance(job, JobsError):
        raise job
    return job


def _skipped(why: JobsError) -> clients.SkippedJob:
    return clients.SkippedJob(error=why.code, message=why.message, job=why.job)


def _filtered(jobs: QuerySet[Job], filters: clients.Filters) -> QuerySet[Job]:
    named = filters.model_dump(exclude_none=True)
    others = {"retry_of": filters.retry_of, "id__lt": filters.cursor}
    jobs = jobs.filter(lists.narrowed(Filters.of(named)))
    return jobs.filter(**{column: value for column, value in others.items() if value is not None})
