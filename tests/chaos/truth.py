"""What the farm holds against what it promised: nothing lost, nothing twice, nothing timed out that could be done, and
pages that say so."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx
from django.core.files.storage import default_storage
from django.db import connection

from jobs.models import Attempt, Edge, Job, Outcome, OutputChunk, ResultFile
from outbox.models import Message
from postgres import clock, connections
from ratelimits.models import Bucket
from scheduling.models import ScheduledFunction
from tests.chaos import handlers
from tests.chaos.farm import WEBS, Farm
from tests.chaos.load import BUCKET, LIMIT, Book
from tests.chaos.silences import Silences
from webhooks.models import Activity, Delivery, DeliveryAttempt

ENDED = ("success", "failed", "canceled", "timed_out")
FUNCTIONS = "tests.chaos.functions."


@dataclass(slots=True)
class Findings:
    """What must not be; each a sentence."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    untrue: list[str] = field(default_factory=list)
    timed_out: list[str] = field(default_factory=list)
    timeouts: int = 0  # rightly or not
    ends: Counter[str] = field(default_factory=Counter)  # of claims, but for success
    events: int = 0
    arrivals: int = 0  # of events, with those that came again
    events_lost: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)  # in the history of all calls

    def losing(self, is_so: object, what: str) -> None:
        """Note something that was promised and is not there."""
        if is_so:
            self.lost.append(what)

    def doubling(self, is_so: object, what: str) -> None:
        """Note something that happened more often than it may."""
        if is_so:
            self.doubled.append(what)


@connections.released()
def is_at_rest() -> bool:
    """Whether everything that was asked has come to its end."""
    functions = ScheduledFunction.objects.filter(function__startswith=FUNCTIONS, ended_at=None)
    return not (
        Job.objects.living().exists()
        or functions.exists()
        or Delivery.objects.filter(status__in=["received", "failed"]).exists()
        or Message.objects.filter(status="pending").exists()
    )


@connections.released()
def waiting() -> dict[str, int]:
    """What has not come to its end, for the one who wonders why."""
    counted = Counter(f"job {job.status}" for job in Job.objects.living())
    live = ScheduledFunction.objects.filter(function__startswith=FUNCTIONS, ended_at=None)
    counted.update(f"function {status}" for (status,) in live.values_list("status"))
    unsettled = Delivery.objects.filter(status__in=["received", "failed"])
    counted.update(f"delivery {status}" for (status,) in unsettled.values_list("status"))
    counted.update({"message pending": Message.objects.filter(status="pending").count()})
    return dict(+counted)


@connections.released()
def statuses() -> dict[int, str]:
    """How each job stands, by its id."""
    return {job.pk: job.status for job in Job.objects.all()}


@connections.released()
def judge(farm: Farm, book: Book, *, began_at: Any) -> Findings:
    """Compare all that is stored, and the ledgers outside, with the book, after everything came to its end."""
    findings = Findings()
    _judge_jobs(findings, farm, book)
    _judge_flows(findings)
    _judge_functions(findings, farm, book)
    _judge_deliveries(findings, book)
    _judge_decisions(findings, book, elapsed_s=(clock.now() - began_at).total_seconds())
    return findings


def pages_are_true(client: httpx.Client, farm: Farm, job: int) -> list[str]:
    """Whether the pages and the API of both nodes say what the database says of an ended job: what they say wrong."""
    with connections.released():
        status = Job.objects.get(pk=job).status
        name = Job.objects.get(pk=job).payload["name"]
    wrong = []
    for web in WEBS:
        base = farm.url(web)
        reported = client.get(f"{base}/api/v1/jobs/{job}").raise_for_status().json()["status"]
        page = client.get(f"{base}/jobs/{job}/").raise_for_status().text
        listed = client.get(f"{base}/jobs/", params={"status": status, "text": name}).raise_for_status().text
        says = {
            "the API": reported == status,
            "the page": f'data-status="{status}"' in page,
            "the list": f"/jobs/{job}/" in listed,
        }
        wrong += [f"{what} of {web} does not say that job {job} is {status}" for what, so in says.items() if not so]
    return wrong


def _judge_flows(findings: Findings) -> None:
    """No step began before what it comes after had ended, and all edges are closed."""
    ended = {row.pk: row for row in Outcome.objects.all()}
    began: dict[int, Any] = {pk: row.claimed_at for pk, row in ended.items() if row.claimed_at}
    for attempt in Attempt.objects.all():
        began[attempt.job_id] = min(attempt.claimed_at, began.get(attempt.job_id, attempt.claimed_at))
    for edge in Edge.objects.all():
        findings.losing(edge.open_of, f"job {edge.job_id} is not let go after job {edge.after_id}")
        is_first = edge.condition != "waited"  # else it began, and submitted what it waits for
        if is_first and edge.job_id in began and began[edge.job_id] < ended[edge.after_id].ended_at:
            findings.untrue.append(f"job {edge.job_id} began before job {edge.after_id} had ended")


def _judge_jobs(findings: Findings, farm: Farm, book: Book) -> None:
    bodies = {job.pk: (job.payload, job.result) for job in Job.objects.whole()}
    _judge_numbers(findings, "job", (payload["n"] for payload, _ in bodies.values()))
    runs = _runs(farm)
    past, spoken = _past(), _spoken()
    jobs = {job.pk: job for job in Job.objects.filter(pk__in=bodies)}
    for pk in book.jobs:
        findings.losing(pk not in jobs, f"job {pk} was acknowledged and is not there")
    for pk, job in jobs.items():
        payload, result = bodies[pk]
        _judge_job(findings, job, result, runs=runs[pk], verdict=book.verdicts.get(pk))
        _judge_claims(findings, job, runs=runs[pk], past=past[pk], spoken=spoken[pk])
        _judge_silence(findings, job, past[pk], silences=farm.silences)
        if job.status == "success":
            _judge_made(findings, job, payload, result)


def _judge_job(findings: Findings, job: Job, result: Any, *, runs: dict[int, list[str]], verdict: str | None) -> None:
    name = _name(job)
    findings.losing(job.status not in ENDED, f"{name} never ended")
    findings.losing(job.kind == "again" and job.status == "failed", f"{name} was given up")
    was_canceled = verdict not in {None, "too_late"}
    findings.losing(was_canceled and job.status != "canceled", f"{name}: the cancel said {verdict}")
    findings.doubling(any(len(each) > 1 for each in runs.values()), f"{name} ran twice under one claim: {runs}")
    findings.doubling(max(runs, default=0) > job.fence, f"{name} ran without a claim: {runs}")
    findings.doubling(verdict == "canceled_before_start" and job.confirmed_fence, f"{name} ran although {verdict}")
    if job.status == "success":
        findings.doubling(result["run"] not in runs.get(job.fence, []), f"{name} has the result of another run")


def _judge_claims(
    findings: Findings, job: Job, *, runs: dict[int, list[str]], past: list[Attempt], spoken: set[int]
) -> None:
    """The history has each claim but those whose answer nobody got. What a claim began that no call confirmed is no
    attempt, and what must not run twice does not begin before."""
    name, ended = f"{_name(job)} {_reported(past)}", {attempt.number for attempt in past}
    reported = ended | ({job.fence} if job.status == "success" else set())
    unconfirmed = {attempt.number for attempt in past if attempt.outcome == "unconfirmed"}
    given_back = unconfirmed | {one.number for one in past if one.outcome in {"released", "suspended"}}
    findings.ends.update(attempt.outcome for attempt in past)
    findings.ends["withdrawn"] += job.fence - len(reported)
    counted = [attempt.attempt for attempt in past if attempt.number not in given_back]
    findings.losing(spoken - reported, f"{name}: workers spoke under the claims {spoken}")
    findings.losing(
        job.confirmed_fence > max(reported, default=0), f"{name}: claim {job.confirmed_fence} was confirmed"
    )
    findings.doubling(max(reported, default=0) > job.fence, f"{name}: the claims {reported} are told")
    findings.doubling(counted != list(range(1, len(counted) + 1)), f"{name}: its attempts are counted {counted}")
    if job.kind == "once":
        findings.doubling(len(reported - given_back) > 1, f"{name} was retried")
        findings.doubling(len(set(runs) - given_back) > 1, f"{name} ran again: {runs}")
        findings.doubling(
            set(runs) - (reported - unconfirmed), f"{name} ran under a claim that nobody confirmed: {runs}"
        )


def _judge_silence(findings: Findings, job: Job, past: list[Attempt], *, silences: Silences) -> None:
    """An attempt may be lost only with a worker that nobody could hear, and time out for that only what must not be
    retried."""
    lost = [attempt for attempt in past if attempt.outcome == "lost"]
    is_excused = all(
        silences.excuse(attempt.worker_name, since=attempt.claimed_at, until=attempt.ended_at) for attempt in lost
    )
    may_end_so = job.status != "timed_out" or (job.kind == "once" and lost)
    findings.timeouts += job.status == "timed_out"
    if not (is_excused and may_end_so):
        findings.timed_out.append(f"{_name(job)} {_reported(past)}")


def _name(job: Job) -> str:
    return f"{job.kind} job {job.pk} ({job.status}, {job.fence} claims)"


def _reported(past: list[Attempt]) -> list[str]:
    return [
        f"{one.number} {one.outcome} with {one.worker_name} {one.claimed_at:%T.%f} to {one.ended_at:%T.%f}"
        for one in past
    ]


def _judge_made(findings: Findings, job: Job, payload: Any, result: Any) -> None:
    """What a job that succeeded wrote, and the file it made."""
    pieces = OutputChunk.objects.filter(job=job, attempt=job.fence).order_by("seq")
    text = "".join(pieces.values_list("text", flat=True))
    findings.losing(len(text) < 6, f"job {job.pk}: its output is {text!r}")
    findings.doubling(text != "0.1.2." and len(text) >= 6, f"job {job.pk}: its output is {text!r}")
    if payload["file"]:
        made = list(ResultFile.objects.filter(job=job, attempt=job.fence))
        wanted = handlers.CONTENT + result["run"].encode()
        kept = [default_storage.open(one.stored_as).read() for one in made]
        findings.losing(kept != [wanted], f"job {job.pk}: its file holds {kept}, not {wanted!r}")


def _judge_functions(findings: Findings, farm: Farm, book: Book) -> None:
    rows = {row.args["n"]: row for row in ScheduledFunction.objects.filter(function__startswith=FUNCTIONS)}
    _judge_numbers(findings, "function", _scheduled_numbers())
    written, lines = _ledger(), Counter(map(int, farm.lines.read_text().split()))
    for n, pk in book.functions.items():
        findings.losing(n not in rows, f"function {pk} ({n}) was acknowledged and is not there")
    for n in book.rolled_back:
        findings.doubling(n in rows or written[n] or lines[n], f"function {n} was rolled back and is there")
    for n, row in rows.items():
        name = f"{row.kind} {row.pk} ({row.status})"
        happened = written[n] if row.kind == "mutation" else lines[n]
        findings.doubling(happened > 1, f"{name} happened {happened} times")
        findings.losing(row.status == "success" and not happened, f"{name} did not happen")
        findings.losing(row.ended_at is None, f"{name} never ended")
        allowed = {"success"} if row.kind == "mutation" else {"success", "unknown"}
        findings.losing(row.ended_at is not None and row.status not in allowed, f"{name}: {row.error}")
    for n in {*written, *lines} - set(rows):
        findings.doubling(n, f"function {n} happened and is not there")


def _judge_deliveries(findings: Findings, book: Book) -> None:
    rows = {row.delivery_id: row for row in Delivery.objects.defer("body")}
    processed = Counter(DeliveryAttempt.objects.filter(outcome="processed").values_list("delivery_id", flat=True))
    reported = Counter(Activity.objects.values_list("delivery_id", flat=True))
    for name in book.deliveries:
        findings.losing(name not in rows, f"the delivery {name} was answered with yes and is not there")
    for name, row in rows.items():
        findings.losing(row.status != "processed", f"the delivery {name} is {row.status}: {row.note}")
        findings.doubling(processed[row.pk] > 1, f"the delivery {name} was processed {processed[row.pk]} times")
        findings.doubling(reported[row.pk] > 1, f"the delivery {name} left {reported[row.pk]} lines")


def _judge_decisions(findings: Findings, book: Book, *, elapsed_s: float) -> None:
    used = Bucket.objects.get(name=LIMIT).used
    unsure = sum(count for key, count in book.unanswered.items() if key.startswith("decide"))
    most = BUCKET.most + BUCKET.rate * elapsed_s
    findings.losing(used < book.grants, f"{book.grants} were granted, and {used} are counted")
    findings.doubling(used > book.grants + unsure, f"{used} are counted, but {book.grants} + {unsure} were asked")
    findings.doubling(used > most, f"{used} were granted, of {most:.0f} that came in")


def _judge_numbers(findings: Findings, what: str, numbers: Iterable[int]) -> None:
    for n, count in Counter(numbers).items():
        findings.doubling(count > 1, f"{what} {n} was asked for once and is there {count} times")


def _scheduled_numbers() -> list[int]:
    found = ScheduledFunction.objects.filter(function__startswith=FUNCTIONS)
    return [args["n"] for args in found.values_list("args", flat=True)]


def _runs(farm: Farm) -> dict[int, dict[int, list[str]]]:
    """The runs that workers noted, by job and attempt."""
    runs: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for line in farm.runs.read_text().splitlines():
        job, attempt, run = line.split()
        runs[int(job)][int(attempt)].append(run)
    return runs


def _past() -> dict[int, list[Attempt]]:
    """The attempts of each job that did not succeed."""
    past: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in Attempt.objects.order_by("number"):
        past[attempt.job_id].append(attempt)
    return past


def _spoken() -> dict[int, set[int]]:
    """The claims of each job under which text came, so that their leases were confirmed."""
    spoken: dict[int, set[int]] = defaultdict(set)
    for job, claim in OutputChunk.objects.values_list("job_id", "attempt").distinct():
        spoken[job].add(claim)
    return spoken


def _ledger() -> Counter[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT n FROM chaos_ledger")
        return Counter(n for (n,) in cursor.fetchall())
