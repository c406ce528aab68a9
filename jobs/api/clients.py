"""What clients call: submit, look, cancel, try again."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, TypeVar, cast

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Status
from ninja.params import functions as parameters

from accounts import http as people
from core.api import Calls, Sample, caller as _user
from core.recent import Outdated
from core.refusal import Refusal, existing, raised
from core.values import BIGINT, INTEGER
from jobs import http, operations
from jobs.api import at_once
from jobs.domain.filters import Filters
from jobs.domain.reasons import FOR_OPERATORS, Reason, Remedy
from jobs.domain.records import MOST_TAGGED
from jobs.errors import JobDeleted, JobsError, NotAMember, NotFound, NotUnique
from jobs.models import Job
from jobs.operations.idempotency import Answer, Submit
from jobs.protocol import clients, jobs as protocol
from jobs.queries import inputs, lists, pages, reads, reports
from observing import fields

Shown = TypeVar("Shown", bound=protocol.JobInList)
router = Calls(tags=["Clients"])
SUBMIT, READ, OPERATE = map(people.callers, ("submit", "read", "operate"))
VIEW = [http.ViewKey(), *READ]  # of calls that a view token narrows
SUBMIT_RECENT = people.callers("submit", recognizes=True)
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


@router.call("get", "/jobs", auth=VIEW, sample=Sample(query="status=in_progress&kind=chat&limit=20"))
def list_jobs(request: HttpRequest, filters: Query[clients.Filters]) -> clients.Page:
    """List jobs.

    The jobs that you may see, newest first: yours, those of your groups; all of them for operators.

    `next` is the `cursor` of the following page, null on the last one. Beside a `tag` other filters choose among its
    newest 5,000 jobs: a page may then have fewer jobs than `limit`, or none, and a `next`.
    """
    http.refuse_unknown_parameters(request, [*clients.Filters.model_fields, http.ViewKey.param_name])
    rows, further = _filtered(protocol.with_names(http.visible_to(request)), filters)
    jobs = [_as_seen(request, protocol.in_list(job)) for job in rows.order_by("-id")[: filters.limit + 1]]
    shown = jobs[: filters.limit]
    return clients.Page(jobs=shown, next=shown[-1].id if len(jobs) > filters.limit else further)


@router.call("get", "/jobs/{jobid:job_id}", auth=VIEW)
def show(request: HttpRequest, job_id: int) -> protocol.Job:
    """Look at a job.

    `attempts` has the latest first, 50 at most. What one wrote and handed in stays there after it was lost: see `fence`
    of the calls below.
    """
    return _as_seen(request, protocol.with_attempts(_visible(request, job_id).pk))


@router.call("get", "/jobs/{jobid:job_id}/output", auth=VIEW, sample=Sample(query="after=-1"))
def output(request: HttpRequest, job_id: int, after: After = -1, fence: Fence = None) -> clients.OutputPage:
    """Read a job's output.

    At most 500 pieces come at once: ask again with `after` one less than `next_seq` until none come. Without `fence`
    it is the attempt that runs or succeeded; of any other job the last that wrote anything.
    """
    http.refuse_unknown_parameters(request, ["after", "fence", http.ViewKey.param_name])
    job = _visible(request, job_id)
    number = (reports.fence_to_read(job.pk) or 0) if fence is None else fence
    page = reads.output_page(job.pk, attempt=number, after=after, most=MOST_PIECES, characters=MOST_OUTPUT_CHARACTERS)
    chunks = [clients.Piece(seq=chunk.seq, text=chunk.text) for chunk in page]
    next_seq = chunks[-1].seq + 1 if chunks else after + 1
    return clients.OutputPage(fence=number, chunks=chunks, next_seq=next_seq)


@router.call("get", "/jobs/{jobid:job_id}/files/{name}", auth=READ, sample=Sample(keeps="picture.png"))
def get_file(request: HttpRequest, job_id: int, name: str, fence: Fence = None) -> HttpResponseBase:
    """Get a result file."""
    job = _visible(request, job_id)
    attempt = job.fence if fence is None else fence
    return http.sent(request, pages.result_file(job.pk, name=name, attempt=attempt))


@router.call("get", "/jobs/{jobid:job_id}/inputs/{name}", auth=READ, sample=Sample(keeps="sound.ogg", name="audio"))
def get_input(request: HttpRequest, job_id: int, name: str) -> HttpResponseBase:
    """Get an input file.

    A file that the job was given. `Range` is answered with 206.
    """
    return http.sent(request, inputs.one(_visible(request, job_id).pk, name=name))


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
    return protocol.in_full([job.pk])[0]


@router.call("get", "/jobs/{jobid:job_id}/why", auth=READ)
def why(request: HttpRequest, job_id: int) -> clients.Reasons:
    """Why does it not run?

    Every reason, the one that matters most first, each with its numbers and with `remedies`: what would change it, as a
    code and a label, and `method` and `path` where it is a call that you may make.

    | code | means | numbers |
    | --- | --- | --- |
    | `not_waiting` | it runs, or has ended | |
    | `expired` | its `expires_at` has passed; it is about to be ended | `expires_at` |
    | `waiting_for_limit` | the tokens of its kind's limit come in later | `limit`, `until`, `seconds` |
    | `waiting_for_budget` | it waits for a budget's next window | `until`, `seconds` |
    | `unconfirmed` | its last workers took it and never called again: it may end them | `leases` |
    | `not_due` | its `run_at` lies ahead | `run_at`, `seconds` |
    | `waits_behind` | the job that has its `unique_key` has to end first | `job` |
    | `waits_for_signal` | it is suspended until that comes | `signal`, `signal_key`, `until` |
    | `waits_after` | jobs that it comes after in its flow have to end first | `jobs` (5 at most), `count` |
    | `owner_paused` | none of its owner's jobs is claimed | `owner`, `since`; for operators `by` |
    | `queue_paused` | nothing of its queue is claimed | `since`; for operators `by` |
    | `queue_full` | as many of its queue run as may | `ceiling`; for operators `running` |
    | `key_paused` | its concurrency key is paused | `key`, `since`; for operators `by` |
    | `key_full` | as many with its concurrency key run as may | `key`, `most` |
    | `no_worker` | no live worker's key allows its queue | of the last one `last_worker`, `last_seen_at` |
    | `all_drained` | the live workers that could take it are drained | `drained`, `names` |
    | `out_of_scope` | live workers do, but they serve other people's jobs only | for operators `others` |
    | `not_asked` | live workers could take it, but their claims name other queues | `workers` |
    | `no_label` | live workers could take it, but each lacks a label it requires | `missing`, `nearest`, `workers` |
    | `head_start` | a live worker has what it prefers and gets it first | `prefers` or `worker`, `seconds` |
    | `all_failed_it` | every live worker that could take it has failed it | `workers`, `until` |
    | `stealers_busy` | only workers that steal from it could take it, none is idle | `workers`; for operators `busy` |
    | `ahead` | the same workers take others first: of its queue (1000: or more), of other queues | `jobs`, `queues` |
    | `share` | a fair queue takes others first: `jobs`, if nothing ends until then | `jobs`, `of_share`, `shares` |
    | `aged` | beside the others: it has waited so long that it counts for more | `counts_as` |
    | `expires` | beside the others: it ends by itself then, if no worker has begun it | `expires_at`, `seconds` |
    | `next` | none of these: the next worker that asks takes it | |

    Remedies: `wait`, `signal`, `run_now`, `cancel`, `retry`, `resume_owner`, `resume_queue`, `resume_key`,
    `raise_ceiling`, `raise_limit`, `raise_budget`, `add_worker`, `undrain_worker`, `add_label`, `ask_for_queue` (of a
    worker whose process names other queues than its key has).
    """
    job, user = _visible(request, job_id), _user(request)
    rights = {"is_operator": reads.is_operator(user), "may_operate": reads.may_operate(user, job)}
    return clients.Reasons(reasons=[_reason(reason, job, **rights) for reason in reads.why_not_running(job.pk)])


def _reason(reason: Reason, job: Job, *, is_operator: bool, may_operate: bool) -> clients.Reason:
    numbers = {name: value for name, value in reason.numbers.items() if is_operator or name not in FOR_OPERATORS}
    sentence = (reason.to_operators if is_operator else "") or reason.sentence
    remedies = [_remedy(remedy, job, may_operate=may_operate) for remedy in reason.remedies]
    return clients.Reason(**{**numbers, "code": reason.code, "sentence": sentence, "remedies": remedies})


def _remedy(remedy: Remedy, job: Job, *, may_operate: bool) -> clients.Remedy:
    is_ours = may_operate and remedy.call is not None
    return clients.Remedy(
        code=remedy.code,
        label=remedy.label,
        method="POST" if is_ours else None,
        path=f"{protocol.API}/jobs/{job.pk}/{remedy.call}" if is_ours else None,
    )


def _visible(request: HttpRequest, job_id: int) -> Job:
    return existing(http.visible_to(request).filter(pk=job_id).first(), NotFound())


def _as_seen(request: HttpRequest, job: Shown) -> Shown:
    """The job's document as the caller is shown it."""
    return job if http.view_of(request) is None else type(job)(**protocol.as_view(vars(job)))


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
    """The jobs of these answers, in full. Read are those of a repeat, which may have been deleted since, those that
    were there before, and those with input files: of these only the database knows more."""
    pairs = [
        (one.id if isinstance(one, operations.Stored) and (one.record.files or one.is_replaced) else one, body)
        for one, body in zip(answers, bodies, strict=True)
    ]
    read = [one for one, _ in pairs if isinstance(one, int)]
    earlier, owner = {job.id: job for job in protocol.in_full(read)} if read else {}, _user(request).get_username()

    def show(one: Answer, body: Any) -> protocol.Job | JobsError:
        if isinstance(one, operations.Stored):
            return protocol.fresh(one, payload=body.payload, owner=owner, group=body.group, tags=body.tags or ())
        return one if isinstance(one, NotUnique) else earlier.get(one) or JobDeleted(job=one)

    return [show(one, body) for one, body in pairs]


def _filtered(jobs: QuerySet[Job], filters: clients.Filters) -> tuple[QuerySet[Job], int | None]:
    """What the filters ask for; of a tag with more jobs than are looked through, the id below which others are."""
    named = Filters.of(filters.model_dump(exclude_none=True))
    others = {"retry_of": filters.retry_of, "id__lt": filters.cursor}
    jobs = jobs.filter(lists.narrowed(named), **{name: value for name, value in others.items() if value is not None})
    if not named.tag:
        return jobs, None
    ids, floor = lists.tagged(named, before=filters.cursor, most=MOST_TAGGED)
    return jobs.filter(pk__in=ids), floor or None
