"""Why a job is not running: facts in, sentences out, each with what would change it.

Who may do that is for the call, or the page, that does it to say.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from core.values import duration
from jobs.domain import labels
from jobs.domain.states import ENDED, Status
from jobs.domain.why_facts import NAMED, Facts, Turn, Unserved, utc

# Numbers that speak of other people's jobs and workers, or of who runs the farm. No sentence holds them.
FOR_OPERATORS: Final = frozenset({"running", "by", "others", "busy"})
_STANDS: Final = {
    Status.PENDING: "it is pending", Status.IN_PROGRESS: "it is in progress", Status.SUCCESS: "it succeeded",
    Status.FAILED: "it failed", Status.CANCELED: "it was canceled", Status.TIMED_OUT: "it timed out",
}  # fmt: skip
# Reasons that time alone does not remove.
NEED_SOMEBODY: Final = frozenset({
    "owner_paused", "queue_paused", "key_paused", "no_worker", "all_drained", "out_of_scope", "not_asked",
    "no_label", "all_failed_it", "unconfirmed",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One way out: a code for machines, a label for people, and the API's `POST /jobs/{id}/<call>`, or the worker whose
    page leads there."""

    code: str
    label: str
    call: str | None = None
    worker_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One answer: a code for machines, a sentence for people, the numbers in it, and what would change it. Where the
    sentence leaves out names of other people, it has them `to_operators`."""

    code: str
    sentence: str
    numbers: dict[str, Any] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()
    to_operators: str = ""


FAR_S: Final = 30 * 86400  # what lies further ahead is named by its date: nobody pictures 26,333 days
NOT_STARTED: Final = "it had not started before it expired"
CANCEL: Final = Remedy(code="cancel", label="Cancel the job", call="cancel")
RUN_NOW: Final = Remedy(code="run_now", label="Run it now", call="run_now")
RETRY: Final = Remedy(code="retry", label="Retry it as a new job", call="retry")
ADD_LABEL: Final = Remedy(code="add_label", label="Start a worker that has what it requires, or label one")
RAISE_LIMIT: Final = Remedy(code="raise_limit", label="Raise the limit")
RAISE_BUDGET: Final = Remedy(code="raise_budget", label="Raise the budget, and submit it again")
RESUME_QUEUE: Final = Remedy(code="resume_queue", label="Resume the queue {queue}")
RESUME_OWNER: Final = Remedy(code="resume_owner", label="Resume the jobs of {owner}")
RESUME_KEY: Final = Remedy(code="resume_key", label="Resume the jobs of this concurrency key")
RAISE_CEILING: Final = Remedy(code="raise_ceiling", label="Raise the ceiling of the queue {queue}")
ADD_WORKER: Final = Remedy(code="add_worker", label="Add a worker for the queue {queue}")
ASK_FOR_QUEUE: Final = Remedy(code="ask_for_queue", label="Have one of these workers ask for the queue {queue} too")


def _wait(label: str) -> Remedy:
    return Remedy(code="wait", label=label)


# Of each reason what changes it, the surest first.
REMEDIES: Final[Mapping[str, tuple[Remedy, ...]]] = {
    "expired": (_wait("Wait a few seconds: once it has ended, it can be retried"),),
    "waiting_for_limit": (_wait("Wait until its tokens are available"), RAISE_LIMIT, CANCEL),
    "waiting_for_budget": (_wait("Wait until the budget has room"), RAISE_BUDGET, CANCEL),
    "unconfirmed": (_wait("Wait for another worker to try it"), CANCEL),
    "not_due": (RUN_NOW, CANCEL),
    "waits_behind": (_wait("Wait until that has ended"), CANCEL),
    "waits_for_signal": (Remedy(code="signal", label="Send the signal {signal}", call="signals"), CANCEL),
    "waits_after": (_wait("Wait until they have ended"), CANCEL),
    "owner_paused": (RESUME_OWNER, CANCEL),
    "queue_paused": (RESUME_QUEUE,),
    "queue_full": (RAISE_CEILING,),
    "key_paused": (RESUME_KEY, CANCEL),
    "key_full": (_wait("Wait until one of them ends"), CANCEL),
    "no_worker": (ADD_WORKER,),
    "all_drained": (ADD_WORKER,),
    "expires": (CANCEL,),
    "aged": (_wait("Wait for its turn"),),
    "out_of_scope": (ADD_WORKER,),
    "not_asked": (ASK_FOR_QUEUE, ADD_WORKER),
    "stealers_busy": (_wait("Wait until one of them is idle"), ADD_WORKER),
    "no_label": (ADD_LABEL, ADD_WORKER),
    "head_start": (_wait("Wait a few seconds"),),
    "all_failed_it": (_wait("Wait until one of them may try again"), ADD_WORKER),
    "ahead": (_wait("Wait for its turn"), ADD_WORKER),
    "share": (_wait("Wait for its turn"), ADD_WORKER),
    "next": (_wait("Wait for a worker to ask for jobs"), ADD_WORKER),
}


def explain(facts: Facts) -> list[Reason]:
    """Every reason why this job is not running, the one that matters most first. Never empty."""
    if facts.status is not Status.PENDING:
        return [_not_waiting(facts)]
    if facts.expired:
        sentence = f"It has expired{_until(facts.expires_at)} and is about to end as timed out."
        return [_reason(facts, "expired", sentence, expires_at=facts.expires_at)]
    reasons = [*_limit(facts), *_hold(facts), *_due(facts), *_owner(facts), *_queue(facts), *_key(facts)]
    reasons += _workers(facts)
    return [*_unconfirmed(facts), *(reasons or [_next(facts)]), *_aged(facts), *_expires(facts)]


def expired(expires_at: datetime | None) -> str:
    """The error of a job that no worker began in time."""
    return f"{NOT_STARTED}{_until(expires_at)}"


def _countdown(seconds: float) -> str:
    return f": in {duration(seconds)}" if seconds < FAR_S else ""


def _reason(facts: Facts, code: str, sentence: str, **numbers: Any) -> Reason:
    remedies = tuple(
        replace(each, label=each.label.format(queue=facts.queue, owner=facts.owner, signal=facts.signal))
        for each in REMEDIES[code]
    )
    return Reason(code=code, sentence=sentence, numbers=numbers, remedies=remedies)


def _not_waiting(facts: Facts) -> Reason:
    sentence = f"It is not waiting: {_STANDS[facts.status]}."
    if facts.is_unconfirmed:
        sentence = "A worker has claimed it and has not confirmed that yet. If it does not, it is soon pending again."
        sentence = " ".join([sentence, *(reason.sentence for reason in _unconfirmed(facts))])
    if facts.canceled_for is not None:
        sentence = f"It was canceled, for job {facts.canceled_for}, which it comes after in its flow, did not succeed."
    if facts.canceled_for is not None and facts.canceled_for == facts.parent:
        sentence = f"It was canceled with job {facts.parent}, which submitted it."
    is_over = facts.status in ENDED
    return Reason(code="not_waiting", sentence=sentence, remedies=(RETRY,) if is_over else (CANCEL,))


def _until(moment: datetime | None) -> str:
    return "" if moment is None else f" ({utc(moment)})"


def _unconfirmed(facts: Facts) -> Iterator[Reason]:
    """Its leases were not confirmed, and not by one answer that was lost."""
    if facts.unconfirmed >= 2:
        sentence = (
            f"Its last {facts.unconfirmed} workers took it and never called again: it may end them as soon as it "
            "begins, or no answer reaches them."
        )
        yield _reason(facts, "unconfirmed", sentence, leases=facts.unconfirmed)


def _limit(facts: Facts) -> Iterator[Reason]:
    if facts.limit_until is not None and facts.limit_in_s > 0:
        until = f"{utc(facts.limit_until)}{_countdown(facts.limit_in_s)}"
        sentence = f"It is waiting for the limit {facts.limit} until {until}."
        numbers = {"limit": facts.limit, "until": facts.limit_until, "seconds": facts.limit_in_s}
        yield _reason(facts, "waiting_for_limit", sentence, **numbers)


def _hold(facts: Facts) -> Iterator[Reason]:
    """It waits for its meter, as long as it is due later."""
    if facts.hold is not None:
        sentence = f"Waiting for {facts.hold.cause} until {utc(facts.hold.until)}{_countdown(facts.due_in_s)}."
        numbers = {"until": facts.hold.until, "seconds": facts.due_in_s}
        yield _reason(facts, "waiting_for_budget", sentence, **numbers)


def _due(facts: Facts) -> list[Reason]:
    if facts.behind is not None:
        sentence = (
            f"It waits behind job {facts.behind}, which has the same unique key: it may start when that has ended."
        )
        return [_reason(facts, "waits_behind", sentence, job=facts.behind)]
    if facts.signal is not None:
        about = "" if facts.signal_key is None else f" for {facts.signal_key}"
        sentence = f"It is suspended until the signal {facts.signal}{about} comes{_or_until(facts.wait_until)}."
        numbers = {"signal": facts.signal, "signal_key": facts.signal_key, "until": facts.wait_until}
        return [_reason(facts, "waits_for_signal", sentence, **numbers)]
    if facts.after_count is not None:
        return [_reason(facts, "waits_after", _after(facts), jobs=list(facts.after), count=facts.after_count)]
    waits_no_longer = facts.limit_in_s >= facts.due_in_s  # than for its limit, which says so itself
    if facts.due_in_s <= 0 or waits_no_longer or facts.hold is not None:
        return []
    when = f"in {duration(facts.due_in_s)}" if facts.due_in_s < FAR_S else f"on {utc(facts.run_at)}"
    sentence = f"It is not due yet: it may start {when}."
    return [_reason(facts, "not_due", sentence, run_at=facts.run_at, seconds=facts.due_in_s)]


def _after(facts: Facts) -> str:
    if not facts.after:
        return "What it comes after in its flow has ended: it may start in a moment."
    more = (facts.after_count or 0) - len(facts.after)
    named = [str(job) for job in facts.after] + ([f"{more:,} more"] if more else [])
    jobs = f"jobs {', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else f"job {named[0]}"
    which = "which have not ended" if len(named) > 1 else "which has not ended"
    return f"It comes after {jobs} in its flow, {which}{_or_until(facts.wait_until)}."


def _or_until(moment: datetime | None) -> str:
    return "" if moment is None else f", or until {utc(moment)}"


def _owner(facts: Facts) -> Iterator[Reason]:
    if facts.owner_paused_at is not None:
        sentence = f"The jobs of {facts.owner} have been paused since {utc(facts.owner_paused_at)}."
        pause = {"since": facts.owner_paused_at, "by": facts.owner_paused_by}
        yield _reason(facts, "owner_paused", sentence, owner=facts.owner, **pause)


def _queue(facts: Facts) -> Iterator[Reason]:
    if facts.paused_at is not None:
        sentence = f"The queue {facts.queue} has been paused since {utc(facts.paused_at)}."
        yield _reason(facts, "queue_paused", sentence, since=facts.paused_at, by=facts.paused_by)
    elif facts.ceiling is not None and len(facts.running) >= facts.ceiling:
        sentence = f"The queue {facts.queue} is full: {facts.ceiling} of its jobs may run at a time."
        yield _reason(facts, "queue_full", sentence, ceiling=facts.ceiling, running=list(facts.running))


def _key(facts: Facts) -> Iterator[Reason]:
    name = f'the concurrency key "{facts.key}"' if facts.key else "its kind without a concurrency key"
    if facts.key_paused_at is not None:
        sentence = f"The jobs of {name} have been paused since {utc(facts.key_paused_at)}."
        pause = {"since": facts.key_paused_at, "by": facts.key_paused_by}
        yield _reason(facts, "key_paused", sentence, key=facts.key, **pause)
    elif facts.key_bound is not None and len(facts.key_running) >= facts.key_bound:
        sentence = f"As many jobs of {name} run as may at a time: {facts.key_bound}."
        numbers = {"key": facts.key, "most": facts.key_bound, "running": list(facts.key_running)}
        yield _reason(facts, "key_full", sentence, **numbers)


def _workers(facts: Facts) -> list[Reason]:
    """Nobody takes it, or somebody will after something else; nothing if it is somebody's next."""
    queue = facts.queue
    if not facts.servers or (facts.drained and not facts.workers):
        return [_unserved(facts)]
    if not facts.in_scope:
        sentence = f"The live workers of the queue {queue} serve other people's jobs only."
        return [_reason(facts, "out_of_scope", sentence, others=facts.servers)]
    if not facts.workers:
        sentence = f"The live workers that may serve the queue {queue} ask for other queues only."
        elsewhere = _reason(facts, "not_asked", sentence, workers=facts.in_scope)
        return [_no_label(facts) if facts.lacking else elsewhere]
    if facts.excluded_alive == facts.workers:
        sentence = "Every live worker that could take it has failed it already; soon one of them may try again."
        return [_reason(facts, "all_failed_it", sentence, workers=facts.workers, until=facts.excluded_until)]
    if facts.due_in_s > 0:
        return []
    if facts.head_start_in_s > 0 and (facts.preferred_worker or not facts.at_once):
        return [_head_start(facts)]
    return _later(facts)


def _unserved(facts: Facts) -> Reason:
    unserved = Unserved(
        queue=facts.queue, drained=facts.drained, last_worker=facts.last_worker, last_seen_at=facts.last_seen_at
    )
    if not facts.drained:
        numbers = {"last_worker": facts.last_worker, "last_seen_at": facts.last_seen_at} if facts.last_worker else {}
        return _reason(facts, "no_worker", unserved.sentence, **numbers)
    names = [worker.name for worker in facts.drained]
    reason = _reason(facts, "all_drained", unserved.sentence, drained=len(names), names=names)
    undrain = [
        Remedy(code="undrain_worker", label=f"Undrain {worker.name}", worker_id=worker.id)
        for worker in facts.drained[:NAMED]
    ]
    return replace(reason, remedies=(*undrain, *reason.remedies))


def _aged(facts: Facts) -> Iterator[Reason]:
    """For how much it counts, beside what it waits for."""
    if facts.counts_as is not None:
        sentence = f"It has waited for so long that it counts as priority {facts.counts_as} by now."
        yield _reason(facts, "aged", sentence, counts_as=facts.counts_as)


def _expires(facts: Facts) -> Iterator[Reason]:
    """It ends by itself where nobody begins it."""
    if facts.expires_at is not None and facts.expires_in_s is not None and facts.expires_in_s > 0:
        moment = utc(facts.expires_at)
        is_near = facts.expires_in_s < FAR_S
        when = f"in {duration(facts.expires_in_s)} ({moment})" if is_near else f"on {moment}"
        sentence = f"It expires {when} if no worker has begun it by then."
        yield _reason(facts, "expires", sentence, expires_at=facts.expires_at, seconds=facts.expires_in_s)


def _no_label(facts: Facts) -> Reason:
    nobody_has = {
        key: condition
        for key, condition in facts.requires.items()
        if not any(labels.meets({key: condition}, values) for values in facts.lacking.values())
    }
    name, values = labels.nearest(facts.requires, facts.lacking)
    short = labels.unmet(facts.requires, values)
    has = [labels.pair(key, "|".join(sorted(values[key]))) for key in short if key in values]
    lacks = [f"no {key}" for key in short if key not in values]
    sentence = (
        f"No live worker has {labels.in_words(nobody_has or facts.requires)}{'' if nobody_has else ' at once'}; "
        f"the nearest is {name} with {' and '.join([*has, *lacks])}."
    )
    numbers = {"missing": nobody_has or dict(facts.requires), "nearest": name, "workers": len(facts.lacking)}
    return _reason(facts, "no_label", sentence, **numbers)


def _head_start(facts: Facts) -> Reason:
    if facts.preferred_worker:
        sentence = (
            f"It prefers the worker {facts.preferred_worker}, which has its beginning, for "
            f"{duration(facts.head_start_in_s)}; then any other may take it."
        )
        numbers = {"worker": facts.preferred_worker, "seconds": facts.head_start_in_s}
        return _reason(facts, "head_start", sentence, **numbers)
    sentence = (
        f"A live worker that has {labels.in_words(facts.prefers)} gets it first; "
        f"any other may take it in {duration(facts.head_start_in_s)}."
    )
    return _reason(facts, "head_start", sentence, prefers=facts.prefers, seconds=facts.head_start_in_s)


def _later(facts: Facts) -> list[Reason]:
    stealers = facts.workers - facts.excluded_alive - facts.home_workers
    if not facts.home_workers and facts.busy_stealers + facts.stealers_at_home == stealers:
        sentence = (
            f"Only workers that steal from the queue {facts.queue} when idle could run it, and each of them "
            "is busy or has jobs in its own queues."
        )
        return [_reason(facts, "stealers_busy", sentence, workers=stealers, busy=facts.busy_stealers)]
    if facts.turn and not facts.first:
        if not facts.turn.jobs:
            return []
        numbers = {"jobs": facts.turn.jobs, "of_share": facts.turn.running, "shares": facts.turn.sharers}
        reason = _reason(facts, "share", _turn(facts, facts.turn, names=[]), **numbers)
        return [replace(reason, to_operators=_turn(facts, facts.turn, names=facts.turn.names))]
    if facts.ahead or facts.first:
        queues = {"queues": list(facts.first)} if facts.first else {}
        return [_reason(facts, "ahead", _ahead(facts), jobs=facts.ahead, **queues)]
    return []


def _ahead(facts: Facts) -> str:
    many = f"{facts.ahead:,}" if facts.ahead < facts.ahead_limit else f"{facts.ahead_limit:,} or more"
    before = f"{many} {'job is' if facts.ahead == 1 else 'jobs are'} ahead of it"
    if not facts.first:
        return f"{before}."
    noun = "queue" if len(facts.first) == 1 else "queues"
    others = f"its workers take jobs from the {noun} {', '.join(facts.first)} first."
    return f"{before}, and {others}" if facts.ahead else f"I{others[1:]}"


def _turn(facts: Facts, turn: Turn, *, names: Sequence[str]) -> str:
    """What runs of its share, and what is taken before it; of other shares these by name."""
    many = f"{turn.jobs:,}" if turn.jobs < facts.ahead_limit else f"{facts.ahead_limit:,} or more"
    before = [f"{turn.own_jobs:,} of the same {turn.fair}"] if turn.own_jobs else []
    if turn.sharers:
        rest, noun = turn.sharers - len(names), "other" if names else "other share"
        *first, last = [*names, *([f"{rest:,} {noun}{'s' if rest > 1 else ''}"] if rest else [])]
        which = f"{', who' if names else ' that'} {'were' if turn.sharers > 1 else 'was'} served less"
        before.append(f"those of {', '.join(first)}{' and ' if first else ''}{last}{which}")
    return (
        f"The queue {facts.queue} is shared out by {turn.fair}, and {turn.running:,} of its share "
        f"{'runs' if turn.running == 1 else 'run'} now. About {many} {'job is' if turn.jobs == 1 else 'jobs are'} "
        f"taken before it{': ' if before else ''}{' and '.join(before)}."
    )


def _next(facts: Facts) -> Reason:
    if facts.is_free:
        return _reason(facts, "next", "It is next: the first free worker takes it.")
    sentence = "It is next: every worker that may take it is busy, and the first to ask again takes it."
    return _reason(facts, "next", sentence)
