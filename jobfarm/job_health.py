"""What is wrong with jobs and workers, and what to do about it: checks behind `manage.py doctor` and /health/ready."""

from collections.abc import Iterator
from typing import Final

from core.commands import MANAGE
from jobfarm import presence
from jobfarm.findings import Finding, Level
from jobs import operations as jobs
from jobs.domain import labels
from jobs.domain.unserved import Unserved
from jobs.models import ALL_JOBS
from jobs.queries import keys, reads, requirements
from jobs.queries import lanes as lane_queries

LISTED: Final = 5  # jobs that a finding names
NEARLY_FULL: Final = 0.8
UNTIDIED: Final = 1_000  # lanes that claims look at for nothing; some hundred for seconds are usual


def workers() -> Iterator[Finding]:
    """Whether a worker is there that claims."""
    live = keys.count_live()
    drained = f", {live.drained:,} of them drained" if live.drained else ""
    if live.workers > live.drained:
        yield Finding(level=Level.FINE, sentence=f"Live workers: {live.workers:,}{drained}.")
    elif live.workers:
        yield Finding(
            level=Level.WARNING,
            sentence="Every live worker is drained: nothing will run.",
            remedy=f"Undrain one on its page, or with {MANAGE} workers undrain NAME.",
        )
    elif presence.is_starting():
        yield Finding(level=Level.STARTING, sentence="No worker has reported yet.")
    else:
        yield Finding(
            level=Level.WARNING,
            sentence="No live worker: nothing will run.",
            remedy=f"{MANAGE} create_worker NAME --queue Q prints a key; start python -m jobfarm_worker with it.",
        )


def queues() -> Iterator[Finding]:
    """Whether what is due in each queue is taken by somebody."""
    for queue in reads.waiting_queues():
        if queue.paused:
            yield Finding(
                level=Level.WARNING,
                page="jobs:queue",
                page_of=queue.name,
                sentence=f"Jobs are pending in the queue {queue.name}, which is paused.",
                remedy="Resume it on its page when its jobs may run again.",
            )
        elif not queue.served:
            yield _unserved(reads.unserved(queue))
        elif queue.out_of_scope:
            yield Finding(
                level=presence.absence(),
                page="jobs:queue",
                page_of=queue.name,
                sentence=f"Jobs are pending in the queue {queue.name} that none of its live workers may take.",
                remedy="Each of them serves only the jobs of its owner and the owner's groups. Start one that "
                f"serves everybody: {MANAGE} create_worker NAME --queue {queue.name}.",
            )
        elif queue.lacking is not None:
            wanted = labels.in_words(queue.lacking)
            yield Finding(
                level=presence.absence(),
                page="jobs:queue",
                page_of=queue.name,
                sentence=f"Jobs are pending in the queue {queue.name} that require {wanted}, which none of its live "
                "workers has.",
                remedy="Start a worker with these labels (--label), or label one in the administration.",
            )


def _unserved(queue: Unserved) -> Finding:
    if queue.drained:
        return Finding(
            level=Level.WARNING,
            page="jobs:worker",
            page_of=str(queue.drained[0].id),
            sentence=f"Jobs are pending. {queue.sentence}",
            remedy=f"Undrain it on its page, or with {MANAGE} workers undrain {queue.drained[0].name}.",
        )
    return Finding(
        level=presence.absence(),
        page="jobs:queue",
        page_of=queue.queue,
        sentence=f"Jobs are pending. {queue.sentence}",
        remedy=f"Start a worker whose queues include {queue.queue}, or have a worker whose key allows it ask for it.",
    )


def unconfirmed() -> Iterator[Finding]:
    """Whether jobs end their workers before these say a word."""
    named = [f"#{pk} ({kind})" for pk, kind in reads.unconfirmed(most=LISTED + 1)]
    if named:
        yield Finding(
            level=Level.WARNING,
            sentence="Jobs whose workers take them and never say a word: "
            f"{', '.join(named[:LISTED])}{' and more' if len(named) > LISTED else ''}.",
            remedy="Such a job may end its worker as soon as it begins (memory, a crash in a library), or no answer "
            "reaches the workers: their logs say which. Cancel it, or mend its handler.",
        )


def lanes() -> Iterator[Finding]:
    """Whether lanes in which nothing waits are put to sleep."""
    untidied = lane_queries.untidied(limit=10 * UNTIDIED)
    if untidied >= UNTIDIED:
        yield Finding(
            level=presence.absence(),
            sentence=f"Lanes are not tidied: nothing waits in {untidied:,} of them, and every claim looks at each.",
            remedy=f"Janitors do it ({MANAGE} janitor): the log of one that runs says what fails.",
        )


def requirement_sets() -> Iterator[Finding]:
    """Whether there is room for more different sets of conditions on labels."""
    most, used = jobs.allowed("REQUIREMENTS_IN_ALL"), requirements.count()
    if most and used > most * NEARLY_FULL:
        by = requirements.most_by()
        whose = f"Those of {by[0]} have {by[1]:,} of them. " if by else ""
        yield Finding(
            level=Level.WARNING,
            sentence=f"Requirement sets nearly full: jobs that wait or run have {used:,} different sets of conditions "
            f"on labels; {most:,} are allowed.",
            remedy=f"{whose}Cancel jobs that name what differs for each of them, or allow more "
            "(JOBFARM_REQUIREMENTS_IN_ALL): every claim looks at each set in its queues.",
        )


def served() -> Iterator[Finding]:
    """Whether each job that waits is one that a live worker may take; names no queue."""
    waiting = [queue for queue in reads.waiting_queues() if not queue.paused]
    for sentence, queues in (
        ("Queues with pending jobs that no live worker serves", [q for q in waiting if not q.served]),
        (
            "Queues with jobs that none of their live workers may take",
            [q for q in waiting if q.out_of_scope or q.lacking is not None],
        ),
    ):
        if queues:
            yield Finding(level=presence.absence(), sentence=f"{sentence}: {len(queues)}.")


def quotas() -> Iterator[Finding]:
    """Whether all jobs together have nearly as much as they may."""
    for quota in jobs.used(ALL_JOBS):
        if quota.quota and quota.is_nearly_reached:
            setting = f"JOBFARM_{jobs.setting_of(quota.resource, of=quota.of)}"
            yield Finding(
                level=Level.WARNING,
                sentence=f"All jobs together have {quota.used:,} {quota.resource}; {quota.quota:,} are allowed.",
                remedy="The administration's list of usage says whose they are. Delete jobs earlier "
                f"(JOBFARM_RETENTION_DAYS), or allow more ({setting}).",
            )
