"""Live queries of jobs: what the pages and the event streams show, and when it is stale."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from jobs.domain import files
from jobs.domain.states import ENDED, Status
from jobs.models import Job, OutputChunk
from jobs.queries import lines, pages, reads
from jobs.wire import jobs as wire
from live.registry import Item, Viewer, live_query, live_stream

_CURSOR = re.compile(r"([0-9]{1,18}):(-?[0-9]{1,9})")
PUBLIC = "public"  # whoever holds the token of a share link
MEMBER = "member"  # who may see the job
OPERATOR = "operator"

ON_OVERVIEW = 20  # running jobs and workers
ENDED_ON_OVERVIEW = 10
NEED_SOMEBODY = frozenset(
    {"queue_paused", "no_worker", "all_failed_it"}
)  # time alone will not start such a job


def _of_job(job_id: int) -> list[str]:
    return [f"job:{job_id}"]


def _shared(job_id: int, **_: Any) -> list[str]:
    return [f"share:{job_id}"]


def _audience_of_job(viewer: Viewer, *, job_id: int, **_: Any) -> str | None:
    """Public for the token of the job's share link (whoever holds it), member for who may see the job."""
    if viewer.ticket is not None:
        return PUBLIC if pages.is_shared(job_id, token=viewer.ticket) else None
    return MEMBER if reads.visible_to(viewer.user).filter(pk=job_id).exists() else None


@live_query("job-json", topics=lambda job_id: [f"job:{job_id}"], audiences=(MEMBER,), render="json")
def job_json(*, job_id: int) -> dict[str, Any] | None:
    """A job as the API tells it, without its payload; of an ended one, how many pieces of output it wrote."""
    found = wire.in_full([job_id])
    if not found:
        return None
    [job] = found
    written = Job.objects.values_list("next_seq", flat=True).get(pk=job_id) if job.status in ENDED else 0
    return {"job": job.model_dump(mode="json", exclude={"payload"}), "written": written}


@job_json.may_see
def _(viewer: Viewer, *, job_id: int) -> str | None:
    return _member(viewer, job_id)


@live_stream("job-output", topics=lambda job_id: [f"output:{job_id}"], rights_topics=_shared)
def job_output(after: str | None, limit: int, *, job_id: int) -> list[Item]:
    """The pieces after `<attempt>:<seq>`, through later attempts; without it, of the current attempt on."""
    if after is None:
        start = _current_attempt(job_id)
    else:
        match = _CURSOR.fullmatch(after)
        start = (int(match[1]), int(match[2])) if match else None
    return [] if start is None else [_item(chunk) for chunk in _chunks(job_id, start)[:limit]]


job_output.may_see(_audience_of_job)


def _member(viewer: Viewer, job_id: int) -> str | None:
    return MEMBER if reads.visible_to(viewer.user).filter(pk=job_id).exists() else None


def _current_attempt(job_id: int) -> tuple[int, int] | None:
    claim_no = Job.objects.filter(pk=job_id).values_list("claim_no", flat=True).first()
    return None if claim_no is None else (claim_no, -1)


def _chunks(job_id: int, start: tuple[int, int]) -> Any:
    attempt, seq = start
    behind = (job_id, attempt, seq)  # compared as a row, so the primary key leads straight to what follows
    return OutputChunk.objects.filter(job_id=job_id, pk__gt=behind).order_by("attempt", "seq")


def _item(chunk: OutputChunk) -> Item:
    data = {"attempt": chunk.attempt, "seq": chunk.seq, "text": chunk.text}
    return Item(cursor=f"{chunk.attempt}:{chunk.seq}", data=data)


# HTML for the pages. `whose` says whose jobs are meant: EVERYBODY (operators alone) or a person's own id.


@live_query(
    "job", topics=_of_job, rights_topics=_shared, audiences=(PUBLIC, MEMBER), template="jobs/live/job.html"
)
def job(*, job_id: int) -> Mapping[str, Any] | None:
    """Where a job stands: status, stage, progress, attempt, times."""
    found = pages.job(job_id)
    return None if found is None else {"job": found}


@live_query(
    "job-facts",
    topics=_of_job,
    rights_topics=_shared,
    audiences=(PUBLIC, MEMBER),
    template="jobs/live/facts.html",
    at_most_every_s=0.25,
)
def job_facts(*, job_id: int) -> Mapping[str, Any] | None:
    """What is known about a job beside its state: kind, queue, worker, owner, times."""
    found = pages.job(job_id)
    return None if found is None else {"job": found}


@live_query(
    "job-files",
    topics=_of_job,
    rights_topics=_shared,
    audiences=(PUBLIC, MEMBER),
    template="jobs/live/files.html",
    at_most_every_s=0.1,
)
def job_files(*, job_id: int) -> Mapping[str, Any] | None:
    """The files of a job: of each name the one that its latest attempt handed in."""
    found = pages.job(job_id)
    if found is None:
        return None
    stored = {file.name: file for file in pages.latest_files(job_id)}
    shown = [stored.pop(name) for name in files.pictures(list(stored), has_ended=found.status in ENDED)]
    return {"job": found, "pictures": shown, "others": list(stored.values())}


@live_query(
    "job-history",
    topics=_of_job,
    rights_topics=_shared,
    audiences=(PUBLIC, MEMBER),
    template="jobs/live/history.html",
    at_most_every_s=0.25,
)
def job_history(*, job_id: int) -> Mapping[str, Any] | None:
    """A job's attempts, its result, and the jobs that try it again."""
    found = pages.job_with_body(job_id)
    if found is None:
        return None
    return {"job": found, "attempts": pages.attempts(job_id), "retries": pages.retries(job_id)}


@live_query(
    "job-why",
    topics=lambda job_id, queue: [f"job:{job_id}", f"queue:{queue}", f"work:{queue}", "workers"],
    audiences=(MEMBER, OPERATOR),
    template="jobs/live/why.html",
    at_most_every_s=1.0,
)
def job_why(*, job_id: int, queue: str) -> Mapping[str, Any] | None:  # noqa: ARG001  # its topics are named by it
    """Why a pending job does not run; nothing for any other."""
    found = pages.job(job_id)
    if found is None:
        return None
    reasons = reads.why_not_running(job_id) if found.status == Status.PENDING else []
    return {"reasons": reasons, "needs_somebody": any(reason.code in NEED_SOMEBODY for reason in reasons)}


for part in (job, job_facts, job_files, job_history):
    part.may_see(_audience_of_job)


@job_why.may_see
def _(viewer: Viewer, *, job_id: int, queue: str) -> str | None:  # noqa: ARG001  # which queue is no secret
    return OPERATOR if reads.is_operator(viewer.user) else _member(viewer, job_id)


def _audience_of_list(viewer: Viewer, **arguments: Any) -> str | None:
    """Operators may ask for everybody's; anybody for what is theirs."""
    user = viewer.user
    if arguments["whose"] == pages.EVERYBODY:
        return OPERATOR if reads.is_operator(user) else None
    return MEMBER if user.is_authenticated and user.is_active and user.pk == arguments["whose"] else None


@live_query(
    "jobs",
    topics=lambda **_: ["jobs"],
    audiences=(MEMBER, OPERATOR),
    template="jobs/live/jobs.html",
    at_most_every_s=1.0,
)
def jobs(
    *,
    whose: int,
    status: str = "",
    kind: str = "",
    queue: str = "",
    worker: str = "",
    owner: str = "",
    before: int = 0,
) -> Mapping[str, Any]:
    """A page of a list of jobs; `before` 0 is the first one."""
    filters = pages.Filters(status=status, kind=kind, queue=queue, worker=worker, owner=owner)
    page = pages.page(viewer=whose, filters=filters, before=before or None)
    kept = {name: value for name, value in asdict(filters).items() if value}
    return {
        "page": page,
        "newest_url": f"?{urlencode(kept)}" if before else None,
        "older_url": f"?{urlencode({**kept, 'before': page.older})}" if page.older else None,
    }


@live_query(
    "overview",
    topics=lambda **_: ["jobs", "workers", "queues"],
    audiences=(MEMBER, OPERATOR),
    template="jobs/live/overview.html",
    at_most_every_s=1.0,
)
def overview(*, whose: int) -> Mapping[str, Any]:
    """What the farm does at this moment, and how well."""
    ended = pages.ended(viewer=whose)
    queues = lines.queue_lines(viewer=whose)
    workers = lines.worker_lines(viewer=whose, limit=ON_OVERVIEW)
    return {
        "queues": queues,
        "workers": workers,
        "running": pages.running(viewer=whose, limit=ON_OVERVIEW),
        "ended": ended[:ENDED_ON_OVERVIEW],
        "health": pages.health(ended),
        "totals": lines.totals(queues, workers),
    }


@live_query(
    "queues",
    topics=lambda **_: ["jobs", "workers", "queues"],
    audiences=(MEMBER, OPERATOR),
    template="jobs/live/queues.html",
    at_most_every_s=1.0,
)
def queues(*, whose: int) -> Mapping[str, Any]:
    """Every queue and what happens in it."""
    return {"queues": lines.queue_lines(viewer=whose)}


@live_query(
    "queue",
    topics=lambda queue, **_: [f"queue:{queue}", f"work:{queue}", "jobs", "workers"],
    audiences=(MEMBER, OPERATOR),
    template="jobs/live/queue.html",
    at_most_every_s=1.0,
)
def queue(*, whose: int, queue: str) -> Mapping[str, Any] | None:
    """One queue."""
    found = lines.queue_lines(viewer=whose, name=queue) if queue else []
    return {"queue": found[0]} if found else None


@live_query(
    "workers",
    topics=lambda **_: ["jobs", "workers"],
    audiences=(MEMBER, OPERATOR),
    template="jobs/live/workers.html",
    at_most_every_s=1.0,
)
def workers(*, whose: int) -> Mapping[str, Any]:
    """The workers and what each of them does."""
    return {"workers": lines.worker_lines(viewer=whose, with_revoked=True)}


for listing in (jobs, overview, queues, queue, workers):
    listing.may_see(_audience_of_list)


@live_query(
    "worker",
    topics=lambda worker_id: [f"worker:{worker_id}", "jobs", "workers"],
    audiences=(MEMBER,),
    template="jobs/live/worker.html",
    at_most_every_s=1.0,
)
def worker(*, worker_id: int) -> Mapping[str, Any] | None:
    """One worker and what it does."""
    line = lines.worker_line(worker_id)
    return None if line is None else {"line": line}


@worker.may_see
def _(viewer: Viewer, *, worker_id: int) -> str | None:
    if not viewer.user.is_authenticated or not viewer.user.is_active:
        return None
    line = lines.worker_line(worker_id)
    mine = line is not None and (line.worker.owner_id == viewer.user.pk or reads.is_operator(viewer.user))
    return MEMBER if mine else None
