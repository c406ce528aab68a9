"""What clients read: jobs, what these wrote and made, why they do not run, event streams of them (what happens comes
from jobs.waiting); and the tokens by which others read some of that."""

from datetime import datetime
from typing import Annotated, TypeVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Status

from accounts import http as people
from core.api import Sample, caller as _user
from core.refusal import existing
from core.values import BIGINT, INTEGER, NO_NUL, words
from jobs import http, operations
from jobs.api.clients import OPERATE, READ, router
from jobs.domain.changes import EVERYBODY, Wanted
from jobs.domain.filters import Filters, ids_of
from jobs.domain.reasons import FOR_OPERATORS, Reason, Remedy
from jobs.domain.records import MOST_TAGGED, MOST_TAGS, is_tags
from jobs.errors import InvalidValue, NotFound
from jobs.models import Job
from jobs.protocol import clients, jobs as protocol
from jobs.queries import bulks, inputs, lists, pages, reads, reports

Shown = TypeVar("Shown", bound=protocol.JobInList)
VIEW = [http.ViewKey(), *READ]  # of calls that a view token narrows
MOST_PIECES = 500
MOST_OUTPUT_CHARACTERS = 4_000_000
MOST_FOLLOWED = 50  # jobs of one stream: the id of each of its events says how far all of them are
After = Annotated[int, Query(ge=-1, le=INTEGER, description="Pieces after this number.")]
Fence = Annotated[int | None, Query(ge=1, le=BIGINT, description="Of which attempt: `fence` of the job's `attempts`.")]
Tag = Annotated[str, Query(max_length=700, description="One tag, or several with commas between.")]
Named = Annotated[str, Query(max_length=150, pattern=NO_NUL, description="A name.")]
FlowId = Annotated[int | None, Query(ge=1, le=BIGINT, description="The id of a flow.")]


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


@router.call("get", "/jobs/events", auth=VIEW, sample=Sample(query="ids=$JOB", is_stream=True))
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
    if not 1 <= len(wanted) <= MOST_FOLLOWED or len(ids_of(ids)) != ids.count(",") + 1:
        raise InvalidValue(field="ids", why=f"one to {MOST_FOLLOWED} ids of jobs, with commas between them")
    return _allowed(request, wanted, are_named=True)


@router.call("get", "/jobs/{jobid:job_id}/events", auth=VIEW, sample=Sample(is_stream=True))
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


@router.call("get", "/events", auth=VIEW, sample=Sample(query="tag=nightly", is_stream=True))
def events_that_match(
    request: HttpRequest, tag: Tag = "", kind: Named = "", owner: Named = "", flow: FlowId = None
) -> HttpResponse:
    """Follow all jobs of a tag, a kind, an owner, a flow.

    One stream for the jobs that match and that you may see, those too that come later: a `job` event, as lists have it,
    for each of the newest 100, and for a job whenever it is submitted or changes (of several changes within 0.2 s the
    last). `owner=me` is you. It does not end by itself, and has no output: that is in the job's own stream.

    After a lost connection the last `id` goes on as `Last-Event-ID`, up to an hour later: every job that was submitted
    or ended meanwhile, and those that run or wait (of more than 5,000 that wait in the farm none), comes as it stands
    now, some of them again. Where it is longer ago, or more than 1,000 jobs or 20,000 ends of the farm lie between, the
    first event is `reset`: list the jobs anew (`GET /api/v1/jobs`); what happens from then on follows.
    """
    http.refuse_unknown_parameters(request, ["tag", "kind", "owner", "flow", http.ViewKey.param_name])
    if tag and not is_tags(tag):
        raise InvalidValue(field="tag", why=f"up to {MOST_TAGS} tags with commas between them")
    wanted = _wanted(request, tag=tag, kind=kind, owner=owner, flow=flow)
    followed = http.FollowedMany(wanted=wanted, user_id=_user(request).pk, expires_at=_end(request))
    return http.Noted(note=followed, content_type="text/event-stream")


@router.call(
    "post", "/view-tokens", auth=OPERATE, answer=Status[clients.ViewToken],
    sample=Sample(body={"tag": "nightly", "expires_in_s": 900}),
)  # fmt: skip
def create_view_token(request: HttpRequest, body: clients.NewViewToken) -> HttpResponse:
    """Let another site's page look.

    A token for one job of yours, or for your jobs of one tag (operators: any), for up to a day. In the address
    (`?token=jfv_...`) it opens, to a page of any site, `GET /api/v1/jobs/{id}`, its `/output` and `/events`, and of a
    tag `GET /api/v1/events` and `GET /api/v1/jobs`: without payload, owner, worker, files and attempts. Nothing else.
    Its streams end when it expires or is revoked. An API token needs the scope `read` too. 413 `quota_reached` with
    1,000 of yours that are good.
    """
    people.require(request, "read")  # whoever shows it to others may look at it
    token, key = operations.create_view_token(
        by=_user(request), job_id=body.job, tag=body.tag, expires_in_s=body.expires_in_s
    )  # fmt: skip
    return http.answered(clients.ViewToken(id=token.pk, token=key, expires_at=token.expires_at), status=201)


@router.call("delete", "/view-tokens/{jobid:token_id}", auth=OPERATE)
def revoke_view_token(request: HttpRequest, token_id: int) -> clients.RevokedViewToken:
    """Revoke a view token.

    One of yours: it opens nothing any more, and its streams end.
    """
    operations.revoke_view_token(token_id, by=_user(request))
    return clients.RevokedViewToken(id=token_id)


def _visible(request: HttpRequest, job_id: int) -> Job:
    return existing(http.visible_to(request).filter(pk=job_id).first(), NotFound())


def _as_seen(request: HttpRequest, job: Shown) -> Shown:
    """The job's document as the caller is shown it."""
    return job if http.view_of(request) is None else type(job)(**protocol.as_view(vars(job)))


def _filtered(jobs: QuerySet[Job], filters: clients.Filters) -> tuple[QuerySet[Job], int | None]:
    """What the filters ask for; of a tag with more jobs than are looked through, the id below which others are."""
    named = Filters.of(filters.model_dump(exclude_none=True))
    others = {"retry_of": filters.retry_of, "id__lt": filters.cursor}
    jobs = jobs.filter(lists.narrowed(named), **{name: value for name, value in others.items() if value is not None})
    if not named.tag:
        return jobs, None
    ids, floor = lists.tagged(named, before=filters.cursor, most=MOST_TAGGED)
    return jobs.filter(pk__in=ids), floor or None


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


def _wanted(request: HttpRequest, *, tag: str, kind: str, owner: str, flow: int | None) -> Wanted:
    """What is asked for, of that what the caller may see; a view token shows what its maker may share. Raises NotFound
    for what it is not for."""
    user, view, tags = _user(request), http.view_of(request), words(tag)
    owner = user.get_username() if owner == "me" else owner
    if view is not None:
        theirs = "" if bulks.reaches_all(user) else user.get_username()
        if view.tag is None or (theirs and owner not in {"", theirs}):  # one of a job has a stream of its own
            raise NotFound
        owner, tags = owner or theirs, [*tags, view.tag]
    is_operator = reads.is_operator(user)
    groups = () if is_operator else user.groups.values_list("pk", flat=True)
    return Wanted(
        tags=tuple(dict.fromkeys(tags)), kind=kind, owner=owner, flow=flow,
        viewer=EVERYBODY if is_operator else user.pk, groups=frozenset(groups),
    )  # fmt: skip


def _end(request: HttpRequest) -> datetime | None:
    view = http.view_of(request)
    return None if view is None else view.expires_at


def _allowed(request: HttpRequest, job_ids: list[int], *, are_named: bool) -> HttpResponse:
    if http.visible_to(request).filter(pk__in=job_ids).count() < len(job_ids):
        raise NotFound
    followed = http.Followed(
        job_ids=job_ids, user_id=_user(request).pk, are_named=are_named, expires_at=_end(request)
    )  # fmt: skip
    return http.Noted(note=followed, content_type="text/event-stream")
