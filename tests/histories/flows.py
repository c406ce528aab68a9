"""Jobs that wait for jobs of their own, for signals and for moments: what claims brought beside what was waited for."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.histories.history import FOREVER, Call, History
from tests.histories.lease_model import ENDED

_CLOCKS_S = 0.05  # what the clocks of the farm and of its callers may differ in


def faults(history: History) -> Iterator[str]:
    """What is wrong with them, a sentence each."""
    by_job: dict[int, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.job is not None:
            by_job[call.job].append(call)
    keyed = [call for call in history.calls if call.call == "signal by key"]
    over = max((call.over for call in history.calls if call.over < FOREVER), default=0.0)
    for job, calls in sorted(by_job.items()):
        waits = {call.fence or 0: wait for call in calls if (wait := _wait(call)) and call.outcome == "ok"}
        unsure = {call.fence or 0 for call in calls if _wait(call) and call.outcome == "unknown"}
        claims = sorted((call for call in calls if _is(call, "claim")), key=lambda call: call.fence or 0)
        signals = [call for call in calls if call.call == "signal"] + keyed
        parts = [
            _of_children(calls), _of_claims(claims, waits, unsure, by_job), _of_signals(claims, waits, unsure, signals),
            _of_times(claims, waits, unsure, calls),
            _of_late_signals(calls), _of_checkpoints(claims, calls),
            _of_end(history, job, calls, waits, over=over),
        ]  # fmt: skip
        yield from (f"job {job}: {fault}" for part in parts for fault in part)


def submits_of_children(calls: Iterable[Call]) -> Iterator[Call]:
    """A child is submitted by the first call for its position, answered by the first one that heard."""
    began: dict[tuple[Any, Any], float] = {}
    ended: dict[int, Call] = {}
    for call in calls:
        if call.call == "child" and call.outcome != "failed":
            place = (call.job, call.more["position"])
            began[place] = min(call.began, began.get(place, FOREVER))
            child = call.more.get("child")
            if child is not None and call.over < (ended[child].over if child in ended else FOREVER):
                ended[child] = call
    for child, call in ended.items():
        at = began[(call.job, call.more["position"])]
        yield Call(call="submit", process=call.process, began=at, ended=call.ended, job=child)


def cancels_of_children(calls: Sequence[Call]) -> Iterator[Call]:
    """Who cancels a job cancels its children too, and theirs, as far as they have not ended: each of them may be."""
    children: dict[int | None, set[int]] = defaultdict(set)
    for call in calls:
        if call.call in {"child", "step"} and call.outcome != "failed" and "child" in call.more:
            children[call.job].add(call.more["child"])
    for cancel in calls:
        if cancel.call == "cancel" and cancel.outcome != "failed" and cancel.answer != "too_late":
            waiting = [*children[cancel.job]]
            while waiting:
                child = waiting.pop()
                waiting += children[child]
                yield Call(call="cancel", outcome="unknown", process=cancel.process, began=cancel.began, job=child)


def _wait(call: Call) -> Mapping[str, Any] | None:
    return call.more.get("waits", {}).get(str(call.job)) if call.call == "finish" else None


def _is(call: Call, name: str) -> bool:
    return call.call == name and call.outcome == "ok"


def _of_children(calls: Sequence[Call]) -> Iterator[str]:
    """`step` is what the table has at the end."""
    at: dict[int, set[int]] = defaultdict(set)
    for call in calls:
        if _is(call, "child") or _is(call, "step"):
            at[call.more["position"]].add(call.more["child"])
    for position, children in sorted(at.items()):
        if len(children) > 1:
            yield f"at position {position} it has submitted the children {sorted(children)}"


def _of_claims(
    claims: Sequence[Call], waits: Mapping[int, Mapping[str, Any]], unsure: set[int], by_job: Mapping[int, list[Call]]
) -> Iterator[str]:
    for claim in claims:
        before = [fence for fence in waits if fence < (claim.fence or 0)]
        last = max(before, default=None)
        if last is None or any(last < fence < (claim.fence or 0) for fence in unsure):
            continue
        given = claim.more.get("signal") or {}
        if not given.get("timed_out"):
            yield from _too_early(claim, waits[last], given, by_job)


def _too_early(
    claim: Call, wait: Mapping[str, Any], given: Mapping[str, Any], by_job: Mapping[int, list[Call]]
) -> Iterator[str]:
    statuses = {after["id"]: after["status"] for after in claim.more.get("after", ())}
    for child in wait.get("children", ()):
        ends = [call for call in by_job.get(child, ()) if _may_end(call)]
        if statuses.get(child) not in ENDED or (ends and min(call.began for call in ends) > claim.over):
            yield f"claim {claim.fence} was given before its child {child} had ended"
    if "signal" in wait and given.get("name") != wait["signal"]:
        yield f"claim {claim.fence} was given without the signal {wait['signal']}"
    if claim.over < wait.get("until_s", 0.0) - _CLOCKS_S:
        yield f"claim {claim.fence} was given before the moment that it waited for"


def _of_times(
    claims: Sequence[Call], waits: Mapping[int, Mapping[str, Any]], unsure: set[int], calls: Sequence[Call]
) -> Iterator[str]:
    """A wait is answered that its time is over once it is, and nothing had come before that it waited for."""
    for claim in claims:
        last = max((fence for fence in waits if fence < (claim.fence or 0)), default=None)
        is_over = (claim.more.get("signal") or {}).get("timed_out")
        if last is None or not is_over or any(last < fence < (claim.fence or 0) for fence in unsure):
            continue
        says, wait = f"claim {claim.fence} was given as if its time were over", waits[last]
        began = min(call.began for call in calls if _wait(call) and call.fence == last and call.outcome != "failed")
        if wait.get("timeout") is None:
            yield f"{says}, and it waited for as long as it takes"
        elif (early_s := began + wait["timeout"] - claim.over) > _CLOCKS_S:
            yield f"{says}, {early_s:.2f} s before it was"
        for data in _untaken(wait, claims, last, [call for call in calls if _is(call, "signal") and call.over < began]):
            yield f"{says}, and the signal {data} had come before it waited"


def _untaken(wait: Mapping[str, Any], claims: Sequence[Call], last: int, before: Sequence[Call]) -> Iterator[Any]:
    """Of the signals that came `before` a wait, those that no claim brought; none where not all claims are known."""
    given = {str(signal.get("data")) for claim in claims if (signal := claim.more.get("signal"))}
    if {*range(1, last + 1)} <= {claim.fence for claim in claims}:
        for call in before:
            is_new = call.more.get("is_new", True) and call.more["name"] == wait.get("signal")
            if is_new and str(call.more["data"]) not in given:
                yield call.more["data"]


def _may_end(call: Call) -> bool:
    return call.call in {"finish", "cancel"} and call.outcome != "failed" and call.answer != "pending"


def _of_signals(
    claims: Sequence[Call], waits: Mapping[int, Mapping[str, Any]], unsure: set[int], signals: Sequence[Call]
) -> Iterator[str]:
    """Each is given to one wait, and each wait has one answer; `data` of each is another one. Behind a wait of which
    nobody knows whether it was taken, whose answer it is is not known."""
    waits_of: dict[str, set[int]] = defaultdict(set)
    answers: dict[int, set[str]] = defaultdict(set)
    for claim in claims:
        given = claim.more.get("signal")
        last = max((fence for fence in waits if fence < (claim.fence or 0)), default=None)
        if not given or last is None or any(last < fence < (claim.fence or 0) for fence in unsure):
            continue
        data = str(given.get("data"))
        answers[last].add("its time is over" if given.get("timed_out") else f"signal {data}")
        if given.get("timed_out") and given.get("data") is not None:
            yield f"claim {claim.fence} has the signal {data} of a wait whose time was over"
        if given.get("name") and not given.get("timed_out"):
            waits_of[data].add(last)
            sent = [one.began for one in signals if one.more["data"] == given["data"] and one.outcome != "failed"]
            if min(sent, default=FOREVER) > claim.over:
                yield f"claim {claim.fence} has the signal {data}, which nobody had sent"
    yield from (
        f"signal {data} was given to the waits of claims {sorted(of)}" for data, of in waits_of.items() if len(of) > 1
    )
    yield from (f"the wait of claim {fence} was answered {sorted(of)}" for fence, of in answers.items() if len(of) > 1)


def _of_late_signals(calls: Sequence[Call]) -> Iterator[str]:
    ended = min((call.over for call in calls if _is(call, "cancel") and call.answer != "too_late"), default=FOREVER)
    for call in calls:
        if _is(call, "signal") and call.began > ended and call.more.get("is_new", True):
            yield f"took the signal {call.more['data']} after it was canceled"


def _of_checkpoints(claims: Sequence[Call], calls: Sequence[Call]) -> Iterator[str]:
    """A claim brings the last one that arrived: none that a later one was surely after."""
    kept = [call for call in calls if call.call == "checkpoint" and call.outcome != "failed"]
    for claim in claims:
        brought = [call for call in kept if call.more["value"] == claim.more.get("checkpoint")]
        for newer in kept:
            if not (newer.outcome == "ok" and (newer.fence or 0) < (claim.fence or 0) and newer.over < claim.began):
                continue
            if all(_is_before(one, newer) for one in brought) and newer not in brought:
                yield f"claim {claim.fence} brought {claim.more.get('checkpoint')} after {newer.more['value']} was kept"
                break


def _is_before(one: Call, newer: Call) -> bool:
    return (one.fence or 0) < (newer.fence or 0) or (one.fence == newer.fence and one.over < newer.began)


def _of_end(
    history: History, job: int, calls: Sequence[Call], waits: Mapping[int, Mapping[str, Any]], *, over: float
) -> Iterator[str]:
    states = history.states or {}
    last = max((call.fence or 0 for call in calls), default=0)
    if states.get(job) != "pending" or last not in waits:
        return
    wait = waits[last]
    began = next(call.over for call in calls if _wait(call) and call.fence == last and call.outcome == "ok")
    given = {str((call.more.get("signal") or {}).get("data")) for call in calls if _is(call, "claim")}
    named = [call for call in calls if _is(call, "signal") and call.more["name"] == wait.get("signal")]
    children = wait.get("children", ())
    is_over = {
        "its children have ended": children and all(states.get(child) in ENDED for child in children),
        "its signal has come": any(str(call.more["data"]) not in given for call in named),
        "its time is over": began + wait.get("timeout", FOREVER) < over or wait.get("until_s", FOREVER) < over,
    }
    yield from (f"was never released, although {why}" for why, so in is_over.items() if so)
