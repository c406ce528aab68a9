"""What is wrong with jobs and workers, and what to do about it: checks behind `manage.py doctor` and /health/ready."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from alerts.domain.rules import Unit
from core.commands import MANAGE
from jobfarm.findings import Area, Condition, Finding, Gauge, Level, Rule, absence, is_starting
from jobs import operations as jobs
from jobs.domain import labels
from jobs.domain.quotas import NEARLY, Quota
from jobs.domain.why_facts import Unserved
from jobs.models import ALL_JOBS
from jobs.queries import fleet, gauges, lanes as lane_queries, reads, requirements
from jobs.queries.pages import EVERYBODY
from jobs.queries.workers import model_of_queues
from postgres.statements import Row

LISTED: Final = 5  # jobs that a finding names
NEARLY_FULL: Final = 0.8
UNTIDIED: Final = 1_000  # lanes that claims look at for nothing; some hundred for seconds are usual


def _live(live: fleet.WorkerCounts) -> Iterator[Finding]:
    drained = f", {live.drained:,} of them drained" if live.drained else ""
    if live.alive > live.drained:
        yield Finding(f"Live workers: {live.alive:,}{drained}.", level=Level.FINE)
    elif live.alive:
        yield Finding(
            "Every live worker is drained: nothing will run.",
            f"Undrain one on its page, or with {MANAGE} workers undrain NAME.",
        )
    elif is_starting():
        yield Finding("No worker has reported yet.", level=Level.STARTING)
    else:
        yield Finding(
            "No live worker: nothing will run.",
            f"{MANAGE} create_worker NAME --queue Q prints a key; start python -m jobfarm_worker with it.",
        )


workers: Final = Area(
    name="workers", read=partial(fleet.worker_counts, viewer=EVERYBODY), others=_live,
    gauges=[
        Gauge("jobfarm_workers_live", "Workers seen lately.", lambda live: live.alive),
        Gauge("jobfarm_workers_drained", "Those of them that are drained: they are given no jobs.",
              lambda live: live.drained),
    ],
)  # fmt: skip


def _untaken(waiting: Sequence[Row]) -> dict[str, float]:
    return {
        queue.name: float(not queue.served or queue.out_of_scope or queue.lacking is not None)
        for queue in waiting if not queue.paused
    }  # fmt: skip


def _waiting(waiting: Sequence[Row]) -> Iterator[Finding]:
    """Whether what is due in each queue is taken by somebody."""
    for queue in waiting:
        pending = f"Jobs are pending in the queue {queue.name}"
        if queue.paused:
            resume = "Resume it on its page when its jobs may run again."
            yield Finding(f"{pending}, which is paused.", resume, page="jobs:queue", page_of=queue.name)
        elif not queue.served:
            yield _unserved(reads.unserved(queue))
        elif queue.out_of_scope:
            yield _untaken_of(
                queue.name,
                f"{pending} that none of its live workers may take.",
                "Each of them serves only the jobs of its owner and the owner's groups. Start one that "
                f"serves everybody: {MANAGE} create_worker NAME --queue {queue.name}.",
            )
        elif queue.lacking is not None:
            yield _untaken_of(
                queue.name,
                f"{pending} that require {labels.in_words(queue.lacking)}, which none of its live workers has.",
                "Start a worker with these labels (--label), or label one in the administration.",
            )


def _unserved(queue: Unserved) -> Finding:
    sentence = f"Jobs are pending. {queue.sentence}"
    if queue.drained:
        worker = queue.drained[0]
        undrain = f"Undrain it on its page, or with {MANAGE} workers undrain {worker.name}."
        return Finding(sentence, undrain, page="jobs:worker", page_of=str(worker.id))
    start = f"Start a worker whose queues include {queue.queue}, or have a worker whose key allows it ask for it."
    return _untaken_of(queue.queue, sentence, start)


def _untaken_of(queue: str, sentence: str, remedy: str) -> Finding:
    return Finding(sentence, remedy, level=absence(), page="jobs:queue", page_of=queue)


queues: Final = Area(
    name="queues", read=reads.waiting_queues, others=_waiting,
    conditions=[
        Condition(
            code="no_worker", read=_untaken, is_absence=True,
            title="Jobs wait that no live worker may take", target="queue", unit=Unit.PRESENCE, page="jobs:queue",
            rule=Rule(
                "JobsWaitForNobody",
                "max by (queue) (jobfarm_queue_waiting) > 0 and max by (queue) (jobfarm_queue_workers) == 0",
                "Jobs wait in {{ $labels.queue }}, and no live worker serves it", severity="critical", lasts="10m",
            ),
        ),
    ],
)  # fmt: skip
waiting: Final = Area(
    name="waiting", read=gauges.oldest_waiting_s,
    conditions=[
        Condition(
            code="jobs_wait", read=lambda ages: ages,
            title="A job waits, since it was due", target="queue", unit=Unit.SECONDS, above=900, page="jobs:queue",
            rule=Rule(
                "JobsWaitTooLong", "max by (queue) (jobfarm_queue_oldest_seconds) > ABOVE",
                "The first job of {{ $labels.queue }} has waited for over 15 minutes", lasts="5m",
            ),
        ),
    ],
)  # fmt: skip


class _Queues(NamedTuple):
    rows: Sequence[fleet.QueueRow]
    models: Mapping[str, str]  # by their queues


def _of_queues(name: str, about: str, number: Callable[[fleet.QueueRow], float]) -> Gauge[_Queues]:
    return Gauge(f"jobfarm_queue_{name}", about, lambda of: {row.name: number(row) for row in of.rows}, ["queue"])


def _of_models(name: str, about: str, number: Callable[[fleet.QueueRow], float]) -> Gauge[_Queues]:
    def read(of: _Queues) -> dict[str, float]:
        return {of.models[row.name]: number(row) for row in of.rows if row.name in of.models}

    return Gauge(f"jobfarm_num_requests_{name}", about, read, ["model_name"])


queue_gauges: Final = Area(
    name="queue gauges", read=lambda: _Queues(fleet.queue_rows(viewer=EVERYBODY), model_of_queues()),
    gauges=[
        _of_queues("waiting", f"Jobs that wait, counted up to {fleet.COUNTED}.", lambda row: row.pending),
        Gauge("jobfarm_queue_oldest_seconds", "Since when the job that is due longest has been.",
              lambda of: {row.name: 0.0 for row in of.rows} | gauges.oldest_waiting_s(), ["queue"]),
        _of_queues("running", "Jobs that run.", lambda row: row.running),
        _of_queues("workers", "Live workers that serve it.", lambda row: row.workers),
        _of_models("waiting", "Calls of a model that wait, as its queue.", lambda row: row.pending),
        _of_models("running", "Calls of a model that run, as its queue.", lambda row: row.running),
        _of_queues("paused", "1 while it is paused.", lambda row: float(row.paused_at is not None)),
    ],
)  # fmt: skip


def unconfirmed() -> Iterator[Finding]:
    """Whether jobs end their workers before these say a word."""
    named = [f"#{pk} ({kind})" for pk, kind in reads.unconfirmed(most=LISTED + 1)]
    if named:
        yield Finding(
            "Jobs whose workers take them and never say a word: "
            f"{', '.join(named[:LISTED])}{' and more' if len(named) > LISTED else ''}.",
            "Such a job may end its worker as soon as it begins (memory, a crash in a library), or no answer "
            "reaches the workers: their logs say which. Cancel it, or mend its handler.",
        )


def lanes() -> Iterator[Finding]:
    """Whether lanes in which nothing waits are put to sleep."""
    untidied = lane_queries.untidied(limit=10 * UNTIDIED)
    if untidied >= UNTIDIED:
        yield Finding(
            f"Lanes are not tidied: nothing waits in {untidied:,} of them, and every claim looks at each.",
            f"Janitors do it ({MANAGE} janitor): the log of one that runs says what fails.",
            level=absence(),
        )


def requirement_sets() -> Iterator[Finding]:
    """Whether there is room for more different sets of conditions on labels."""
    most, used = jobs.allowed("REQUIREMENTS_IN_ALL"), requirements.count()
    if most and used > most * NEARLY_FULL:
        by = requirements.most_by()
        whose = f"Those of {by[0]} have {by[1]:,} of them. " if by else ""
        yield Finding(
            f"Requirement sets nearly full: jobs that wait or run have {used:,} different sets of conditions "
            f"on labels; {most:,} are allowed.",
            f"{whose}Cancel jobs that name what differs for each of them, or allow more "
            "(JOBFARM_REQUIREMENTS_IN_ALL): every claim looks at each set in its queues.",
        )


def served() -> Iterator[Finding]:
    """Whether each job that waits is one that a live worker may take; names no queue."""
    if untaken := sum(_untaken(reads.waiting_queues()).values()):
        yield Finding(f"Queues with jobs that no live worker takes: {untaken:.0f}.", level=absence())


def _nearly_reached(used: Sequence[Quota]) -> Iterator[Finding]:
    """Whether all jobs together have nearly as much as they may."""
    for quota in used:
        if quota.quota and quota.is_nearly_reached:
            setting = f"JOBFARM_{jobs.setting_of(quota.resource, of=quota.of)}"
            yield Finding(
                f"All jobs together have {quota.used:,} {quota.resource}; {quota.quota:,} are allowed.",
                "The administration's list of usage says whose they are. Delete jobs earlier "
                f"(JOBFARM_RETENTION_DAYS), or allow more ({setting}).",
            )


_Quotas = Gauge[Sequence[Quota]]
quotas: Final = Area(
    name="quotas", read=lambda: jobs.used(ALL_JOBS), others=_nearly_reached,
    gauges=[
        _Quotas("jobfarm_usage", "What all jobs together have.",
                lambda used: {one.resource.replace(" ", "_"): one.used for one in used}, ["resource"]),
        _Quotas("jobfarm_quota", "What all jobs together may have.",
                lambda used: {one.resource.replace(" ", "_"): one.quota for one in used if one.quota}, ["resource"]),
    ],
    conditions=[
        Condition[Sequence[Quota]](
            code="quota", read=lambda used: {one.resource: 100 * one.used / one.quota for one in used if one.quota},
            title="A quota of all jobs together is used up", target="resource", unit=Unit.PERCENT,
            above=100 * NEARLY, page="jobs:list",
            rule=Rule(
                "QuotaNearlyReached",
                f"max by (resource) (jobfarm_usage) / max by (resource) (jobfarm_quota) > {NEARLY}",
                "Over nine tenths of the farm's quota of {{ $labels.resource }} are used", lasts="10m",
            ),
        ),
    ],
)  # fmt: skip
