"""All that is checked of a history: each job by its calls and its moves, what is held at once, and what was written."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.histories import budgets, capacity, flows, linear, messages, moves, mutations, pushes, shares
from tests.histories.history import FOREVER, Call, History


def faults(history: History) -> list[str]:
    """What cannot have been, a sentence each, with the times from the first call on."""
    history = _from_the_first(history)
    found = [*_of_jobs(history), *capacity.faults(history), *mutations.faults(history.calls, history.lists)]
    found += budgets.faults(history)
    found += [*pushes.faults(history.calls), *flows.faults(history), *messages.faults(history)]
    found += shares.faults(history)
    return found + (list(moves.faults(history)) if history.moves else [])


def _of_jobs(history: History) -> Iterator[str]:
    by_job: dict[int, list[Call]] = defaultdict(list)
    of_children = [*flows.submits_of_children(history.calls), *flows.cancels_of_children(history.calls)]
    for call in [*history.calls, *of_children]:
        if call.job is not None:
            by_job[call.job].append(call)
    last = max((call.over if call.over < FOREVER else call.began for call in history.calls), default=0.0)
    claims = [call.began for call in history.calls if call.outcome == "unknown" and call.call == "claim"]
    submits = [call for call in history.calls if call.outcome == "unknown" and call.call in {"submit", "child"}]
    for job, status in (history.states or {}).items():
        by_job[job].append(Call(call="read", process="the last look", began=last, ended=last, job=job, answer=status))
    for job, calls in sorted(by_job.items()):
        if history.states is not None and job not in history.states:
            yield from (f"job {job} was acknowledged and is not there" for _ in _acknowledged(calls)[:1])
        elif history.states and not (_acknowledged(calls) or submits) and any(map(_acknowledged, by_job.values())):
            yield f"job {job} is there, and nobody submitted it"
        else:
            yield from _of_job(job, calls, hidden_from=min(claims, default=FOREVER), forgets=history.may_forget)


def _acknowledged(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call.call == "submit" and call.outcome == "ok"]


def _of_job(job: int, calls: list[Call], *, hidden_from: float, forgets: bool) -> Iterator[str]:
    try:
        if not linear.can_be(calls, hidden_from=hidden_from, forgets=forgets):
            core = linear.core(calls, hidden_from=hidden_from, forgets=forgets)
            yield f"job {job}: in no order can these have happened: {'; '.join(map(str, core))}"
    except linear.TooLarge:
        yield f"job {job}: its {len(calls)} calls have more orders than are searched"


def _from_the_first(history: History) -> History:
    """Its times begin with 0."""
    calls = [call.began for call in history.calls if call.call != "mutation"]  # whose times nobody notes
    first = min(calls + [move.at for move in history.moves], default=0.0)
    return replace(
        history,
        calls=[
            replace(
                call,
                began=call.began - first,
                ended=None if call.ended is None else call.ended - first,
                more=_moved(call.more, first),
            )
            for call in history.calls
        ],
        moves=[replace(move, at=move.at - first) for move in history.moves],
        bounds=[replace(bound, until=bound.until and bound.until - first) for bound in history.bounds],
    )


def _moved(more: dict[str, Any], first: float) -> dict[str, Any]:
    """Moments that are waited for are of the same clock."""
    if "waits" not in more:
        return more
    waits = {job: wait | ({"until_s": wait["until_s"] - first} if "until_s" in wait else {})
             for job, wait in more["waits"].items()}  # fmt: skip
    return {**more, "waits": waits}
