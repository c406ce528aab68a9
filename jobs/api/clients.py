"""What clients call: submit, with input files; cancel, try again, change what waits."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, cast
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Status
from ninja.params import functions as parameters

from accounts import http as people
from core.api import Calls, Sample, caller as _user
from core.recent import Outdated
from core.refusal import Refusal, raised
from jobs import http, operations
from jobs.api import at_once
from jobs.errors import JobDeleted, JobsError, NotAMember, NotUnique
from jobs.operations.idempotency import Answer, Submit
from jobs.protocol import clients, jobs as protocol
from observing import fields

# The routes of `jobs.api.reading` and `jobs.api.together`, too: one path has several methods.
router = Calls(tags=["Clients"])
SUBMIT, READ, OPERATE = map(people.callers, ("submit", "read", "operate"))
SUBMIT_RECENT = people.callers("submit", recognizes=True)
IdempotencyKey = Annotated[
    str | None,
    parameters.Header(
        ..., alias="Idempotency-Key", min_length=1, max_length=255, pattern="^[ -~]+$",
        description="Any text, new for each request: a repeat with it within 24 hours submits nothing.",
    ),
]  # fmt: skip


@router.call(
    "post",
    "/jobs",
    auth=SUBMIT_RECENT,
    answer=Status[protocol.Job],
    sample=Sample(body={"kind": "chat", "payload": {"prompt": "Why is the sky blue?"}}),
)
def submit(request: HttpRequest, body: clients.NewJob, idempotency_key: IdempotencyKey = None) -> HttpResponse:
    """Submit a job.

    Without the right to do so (403 `forbidden` says which) `priority` is at most the kind's own or 0, and `queue` the
    kind's own.

    `unique_key` refuses a twin: 409 `not_unique`, with the living one's id as `job`, while a job of yours of the same
    kind and key has not ended. Other people's keys are theirs. With `on_conflict` it need not be refused:

    - `replace`: the living one, if no worker has begun it, becomes this one: payload, files, `run_at`, priority and all
      else; without `run_at` it keeps its place. 200 with its id. Else 409 with `reason`: `in_progress`,
      `waits_for_retry` (it failed, and is tried again), or `of_another_token` (this token may not cancel it).
    - `after`: the same while no worker has begun it. Else this one waits behind it (`waits_for`) and starts when that
      has ended, however it ends; later ones replace this one.
    - `debounce`, such as `{"quiet": 10, "at_most": 120}`: `after`, and it runs once no further one came for 10 s, at
      the latest 120 s after the first.

    With a header such as `Idempotency-Key: report-7` the call may be repeated when its answer was lost: for 24 hours
    the same key with the same body submits nothing more, and is answered with the same job, as it stands now, whatever
    has become of it (410 `job_deleted` if that was deletion). Another body: 422 `idempotency_key_reused`. While the
    first is still being carried out a repeat waits for it; after 5 s it gets 409 `idempotency_key_in_use`: send it
    again after `Retry-After` seconds. A refusal is not kept: a repeat of it is tried anew.

    `after` names jobs that it starts after, by id (422 `unknown_job` for one that you may not see): they
    are part of one `flow` then (docs/flows.md). Those of one bulk may name one another.

    `files` gives the job input files: `{"audio": "<id>"}` names an upload (`POST /api/v1/files`) as the worker asks for
    it; 16 at most. 422 `unknown_file` for one that is not there, or is neither yours nor of a job that you may see.
    """
    stored = _stored_recent
    if idempotency_key is not None or body.on_conflict or body.debounce or body.after or body.name:
        people.look_up(request, "submit")
        stored = _stored
    return _submitted_once(request, idempotency_key, body, submit=lambda: [raised(stored(request, [body])[0])])


at_once.serve("/jobs", SUBMIT_RECENT[0], clients.NewJob, submit)


@router.call(
    "post",
    "/jobs/bulk",
    auth=SUBMIT,
    answer=Status[clients.Submitted],
    sample=Sample(body={"jobs": [{"kind": "chat", "payload": {}}, {"kind": "chat", "payload": {}, "priority": -5}]}),
)
def submit_many(request: HttpRequest, body: clients.NewJobs, idempotency_key: IdempotencyKey = None) -> HttpResponse:
    """Submit many jobs.

    Up to 1,000 jobs in one transaction. The answer has an entry for each, in order: the job, or `"error":
    "not_unique"` and the twin's id as `job` for one whose twin has not ended. Any other fault refuses all of them.
    An `Idempotency-Key` makes it repeatable, as it does a single submit: the same jobs, the same ones left out.
    """
    answers = _once(
        request, http.repeatable(request, _user(request), idempotency_key, body), body.jobs,
        submit=lambda: _stored(request, body.jobs),
    )  # fmt: skip
    jobs = [
        clients.SkippedJob(error=job.code, message=job.message, job=job.job) if isinstance(job, JobsError) else job
        for job in _shown(request, answers, body.jobs)
    ]
    return http.answered(clients.Submitted(jobs=jobs), status=201)


@router.call("post", "/jobs/{jobid:job_id}/cancel", auth=OPERATE)
def cancel(request: HttpRequest, job_id: int) -> clients.Canceled:
    """Cancel a job.

    `verdict` says what it came to: `canceled_before_start`, `canceled_before_retry`, `canceled_while_suspended`,
    `canceled_while_running` (the status is canceled now, and whatever the worker still says is refused), or
    `too_late`: it had ended, `status` says how.
    """
    canceled = operations.cancel(job_id, by=_user(request))
    return clients.Canceled(verdict=canceled.verdict, status=canceled.status)


@router.call("post", "/jobs/{jobid:job_id}/retry", auth=OPERATE, answer=Status[protocol.Job])
def retry(request: HttpRequest, job_id: int, idempotency_key: IdempotencyKey = None) -> HttpResponse:
    """Try an ended job again.

    Retries the job: submits it again, as a new job whose `retry_of` names the old one, with its queue and priority: 403
    `forbidden` where you could not submit it so. 409 `not_ended` while it has not ended, `already_retried` (with `job`)
    where another has its place in its flow, `not_unique` while its owner has another with its `unique_key`. An
    `Idempotency-Key` makes it repeatable, as it does a submit.
    """
    return _submitted_once(request, idempotency_key, submit=lambda: [operations.retry(job_id, by=_user(request)).pk])


@router.call("post", "/jobs/{jobid:job_id}/run_now", auth=OPERATE)
def run_now(request: HttpRequest, job_id: int, idempotency_key: IdempotencyKey = None) -> protocol.Job:
    """Let a job that is due later run now.

    Makes a job that is due later due now; one that is due already stays as it is. 409 `not_waiting` for one that runs
    or has ended, 409 `waits_for_limit` while the tokens of its limit have not come in, 409 `waits_for_budget` while a
    budget has no room for it, 409 `waits_behind` for one that starts after another. An `Idempotency-Key` makes it
    repeatable.
    """
    repeatable = http.repeatable(request, _user(request), idempotency_key)
    answers = operations.done_once(repeatable, lambda: [operations.run_now(job_id, by=_user(request)).pk])
    return raised(_shown(request, answers, [None])[0])


@router.call("post", "/jobs/{jobid:job_id}/priority", auth=OPERATE, sample=Sample(body={"priority": -10}))
def change_priority(request: HttpRequest, job_id: int, body: clients.NewPriority) -> protocol.Job:
    """Change the priority of a job that waits.

    Gives a job that waits another priority; it keeps its place among those of the same one. 409 `not_waiting` for one
    that runs or has ended, 403 `forbidden` above what you may give.
    """
    job = operations.change_priority(job_id, body.priority, by=_user(request))
    return raised(_shown(request, [job.pk], [None])[0])


@router.call("post", "/files", auth=SUBMIT, sample=Sample(query="name=sound.ogg", sends="sound.ogg"))
def upload(
    request: HttpRequest,
    name: Annotated[str, parameters.Query(..., description="What it is called.", examples=["sound.ogg"])],
) -> Status[clients.Upload]:
    """Upload an input file.

    Keeps the request's body as a file that jobs of yours may be given: name its `id` in `files` of a submit, for as
    many jobs as you like. It is kept for 24 hours, and while a job uses it. It counts as your result files do: without
    room in your quota, or the farm's, 413 `quota_reached`. Names are plain (letters, digits, dots, dashes,
    underscores).
    """
    http.refuse_unknown_parameters(request, ["name"])
    with http.received(request) as content:
        kept = operations.upload(name, content, owner=_user(request))
    return Status(201, clients.Upload.of(kept, expires_at=operations.expires_at(kept)))


@router.call("get", "/files/{uuid:file_id}", auth=READ)
def show_upload(request: HttpRequest, file_id: UUID) -> clients.Upload:
    """Look at an upload."""
    kept, expires_at = operations.uploaded(file_id, by=_user(request))
    return clients.Upload.of(kept, expires_at=expires_at)


@router.call("delete", "/files/{uuid:file_id}", auth=SUBMIT)
def delete_upload(request: HttpRequest, file_id: UUID) -> clients.DeletedUpload:
    """Delete an upload.

    409 `file_in_use` while a job that has not ended uses it. From jobs that ended it is gone, too: they cannot be
    retried.
    """
    operations.delete_upload(file_id, by=_user(request))
    return clients.DeletedUpload(id=file_id)


def _new_jobs(request: HttpRequest, bodies: Sequence[clients.NewJob]) -> Iterator[operations.NewJob]:
    """What the bodies ask for. A group that is not the owner's is refused whether it exists or not."""
    user, token, may_wait = _user(request), people.let_in_by(request), http.may_wait(request)
    groups = {group.name: group for group in user.groups.all()} if any(body.group for body in bodies) else {}
    for body in bodies:
        new = cast("operations.NewJob", {**vars(body), "owner": user, "token_id": token and token.pk})
        new["debounce"] = None if body.debounce is None else body.debounce.model_dump()
        new["may_wait"] = body.may_wait or may_wait
        new["keep_content"] = token is None or token.keep_content
        if body.on_conflict or body.debounce:
            new["may_cancel"] = token is None or token.may("operate")
        if body.group is not None:
            if body.group not in groups:
                raise NotAMember
            new["group"] = groups[body.group]
        yield new


def _stored(request: HttpRequest, bodies: Sequence[clients.NewJob]) -> list[operations.Stored | NotUnique]:
    return operations.store([*_new_jobs(request, bodies)], by=_user(request))


def _stored_recent(request: HttpRequest, bodies: Sequence[clients.NewJob]) -> list[operations.Stored | NotUnique]:
    """`_stored` for one job, by kind, token and person as this process remembers them."""
    token = people.let_in_by(request)
    try:
        [new] = _new_jobs(request, bodies)
        return [operations.store_recent(new, by=_user(request), versions=token.versions if token else None)]
    except (Outdated, Refusal):
        people.look_up(request, "submit")
        return _stored(request, bodies)


def _once(
    request: HttpRequest, repeatable: operations.Repeatable | None, bodies: Sequence[clients.NewJob], *, submit: Submit
) -> list[Answer]:
    """Submit jobs once, and count them: all of it in one transaction, where it is repeatable."""
    user, payloads = _user(request), [body.payload for body in bodies]
    with operations.stored_ahead(payloads, owner_id=user.pk, unless=lambda: operations.is_known(repeatable)):
        return operations.once(
            repeatable, count=lambda: http.count_submitted(request, user, jobs=len(bodies) or 1), submit=submit
        )


def _submitted_once(
    request: HttpRequest,
    idempotency_key: str | None,
    body: clients.NewJob | None = None,
    *,
    submit: Callable[[], Sequence[operations.Stored | int]],
) -> HttpResponse:
    """The one job that `submit` stores, or of a repeated request the one that the first was answered with."""
    repeatable = http.repeatable(request, _user(request), idempotency_key, body)
    answers = _once(request, repeatable, [] if body is None else [body], submit=submit)
    [job] = map(raised, _shown(request, answers, [body]))
    fields.note(job_id=job.id)
    return http.answered(job, status=200 if operations.was_replaced(answers[0]) else 201)


def _shown(
    request: HttpRequest, answers: Sequence[Answer], bodies: Sequence[clients.NewJob | None]
) -> list[protocol.Job | JobsError]:
    """The jobs of these answers, as far as the caller may read. Looked up are those of a repeat, which may have been
    deleted since, those that were there before, and those with input files: of these only the database knows more."""
    pairs = [
        (one.id if isinstance(one, operations.Stored) and (one.record.files or one.is_replaced) else one, body)
        for one, body in zip(answers, bodies, strict=True)
    ]
    read = [one for one, _ in pairs if isinstance(one, int)]
    earlier, owner = {job.id: job for job in protocol.in_full(read)} if read else {}, _user(request).get_username()
    token, stored = people.let_in_by(request), {one.id for one in answers if isinstance(one, operations.Stored)}

    def show(one: Answer, body: Any) -> protocol.Job | JobsError:
        if isinstance(one, operations.Stored):
            return protocol.fresh(one, payload=body.payload, owner=owner, group=body.group, tags=body.tags or ())
        if isinstance(one, NotUnique) or one not in earlier:
            return one if isinstance(one, NotUnique) else JobDeleted(job=one)
        if token is None or token.may("read"):
            return earlier[one]
        is_of_another = earlier[one].replaced_at is not None and one not in stored
        return protocol.without_content(earlier[one], keeps_input=body is not None and not is_of_another)

    return [show(one, body) for one, body in pairs]
