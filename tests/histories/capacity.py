"""Nothing is granted beyond what it holds: queues with a ceiling, keys, unique keys, and limits with a rate.

A job is held for certain from the moment its claim was answered until its worker last spoke under it and was accepted;
where PostgreSQL recorded the moves, from the one that claimed it to the one that ended that."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from tests.histories.history import FOREVER, Bound, Call, History

Span = tuple[float, float, str]


def faults(history: History) -> Iterator[str]:
    """What was granted beyond a bound."""
    moved = {move.job for move in history.moves}
    held = [*_by_moves(history), *(span for span in _by_calls(history.calls) if span[0] not in moved)]
    for bound in history.bounds:
        if bound.rate is not None:
            takes = [call for call in history.calls if call.call == "take" and call.more.get("limit") == bound.name]
            yield from _beyond_rate(bound, [call for call in takes if call.outcome == "ok"])
        else:
            yield from _beyond(bound, [span for job, span in held if bound.name in history.within.get(job, ())])
    yield from _twins(history)


def _beyond(bound: Bound, spans: Iterable[Span]) -> Iterator[str]:
    holding: list[tuple[float, str]] = []
    for begin, end, what in sorted(spans):
        while holding and holding[0][0] <= begin:
            heapq.heappop(holding)
        heapq.heappush(holding, (end, what))
        if len(holding) > bound.most and begin < (bound.until or FOREVER):
            names = ", ".join(sorted(name for _, name in holding))
            yield f"{bound.name} holds {bound.most:g}, and {len(holding)} were held at {begin:.3f}: {names}"
            return


def _by_moves(history: History) -> Iterator[tuple[int, Span]]:
    by_job = defaultdict(list)
    for move in history.moves:
        by_job[move.job].append(move)
    for job, moves in by_job.items():
        claimed = None
        for move in moves:
            if move.was == "pending" and move.becomes == "in_progress":
                claimed = move
            elif claimed is not None and move.becomes != "in_progress":
                yield job, (claimed.at, move.at, f"job {job} by claim {claimed.fence}")
                claimed = None


def _by_calls(calls: Sequence[Call]) -> Iterator[tuple[int, Span]]:
    claimed: dict[tuple[int, int], float] = {}
    spoke: dict[tuple[int, int], float] = {}
    over: set[tuple[int, int]] = set()
    for call in sorted(calls, key=lambda call: call.began):
        if call.job is None or call.fence is None:
            continue
        key = call.job, call.fence
        if call.outcome == "ok" and call.call == "claim":
            claimed[key] = min(claimed.get(key, call.over), call.over)
        # A finish may be repeated long after the first: only the first one says that the job was held.
        elif call.outcome == "ok" and call.call in {"report", "finish"} and (call.call == "report" or key not in over):
            spoke[key] = call.began
        if call.call in {"finish", "release", "withdraw"}:
            over.add(key)
    for (job, fence), begin in claimed.items():
        if spoke.get((job, fence), begin) > begin:
            yield job, (begin, spoke[job, fence], f"job {job} by claim {fence}")


def _beyond_rate(bound: Bound, takes: Sequence[Call]) -> Iterator[str]:
    """The calls take tokens in the order of their deadlines, each as soon as there is one. If one comes too late that
    way, it does in any other."""
    assert bound.rate is not None
    waiting: list[tuple[float, int]] = []
    tokens, now = bound.most, float("-inf")
    begins = sorted((call.began, place) for place, call in enumerate(takes) for _ in range(call.more.get("count", 1)))
    coming = iter([*begins, (float("inf"), -1)])
    begin, place = next(coming)
    while place >= 0 or waiting:
        while place >= 0 and (begin <= now or not waiting):
            tokens = min(bound.most, tokens + (max(begin, now) - now) * bound.rate) if now > float("-inf") else tokens
            now = max(begin, now)
            heapq.heappush(waiting, (takes[place].over, place))
            begin, place = next(coming)
        # Wait for a token, or for the next call to begin, whose deadline may be nearer.
        ready = now if tokens >= 1 else now + (1 - tokens) / bound.rate
        if begin < ready:
            tokens, now = tokens + (begin - now) * bound.rate, begin
            continue
        tokens, now = tokens + (ready - now) * bound.rate - 1, ready
        over, late = heapq.heappop(waiting)
        if now > over + 1e-6:
            yield _window(bound, takes, takes[late])
            return


def _window(bound: Bound, takes: Sequence[Call], last: Call) -> str:
    """The shortest time until this call's end in which too much was granted."""
    assert bound.rate is not None
    inside = sorted((call for call in takes if call.over <= last.over), key=lambda call: -call.began)
    granted = 0
    for call in inside:
        granted += call.more.get("count", 1)
        seconds = last.over - call.began
        if granted > bound.most + bound.rate * seconds + 1e-6:
            return f"{bound.name} granted {granted} in {seconds:.3f} s from {call.began:.3f} on"
    return f"{bound.name} granted more than it holds before {last.over:.3f}"


def _twins(history: History) -> Iterator[str]:
    """Two jobs under one unique key that lived at once, and two answers to one idempotency key."""
    for name, calls in _submits_by(history, "idempotency").items():
        if len(jobs := {call.job for call in calls}) > 1:
            yield f"the idempotency key {name} was answered with the jobs {sorted(job or 0 for job in jobs)}"
    lives = _lives(history)
    for name, calls in _submits_by(history, "unique").items():
        spans = sorted((call.over, lives.get(call.job or 0, call.over), call.job) for call in calls)
        for (_, end, first), (begin, _, second) in pairwise(spans):
            if begin < end and first != second:
                yield f"the unique key {name} had two jobs that lived at {begin:.3f}: {first} and {second}"


def _submits_by(history: History, field: str) -> Mapping[str, list[Call]]:
    """The acknowledged submits that have this field, by it."""
    found: dict[str, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.call == "submit" and call.outcome == "ok" and (name := call.more.get(field)):
            found[name].append(call)
    return found


def _lives(history: History) -> dict[int, float]:
    """Until when each job lived for certain: until a move ended it, or somebody was answered that it had not ended."""
    lives: dict[int, float] = {}
    for call in history.calls:
        if call.job is not None and call.outcome == "ok" and call.call in {"report", "claim"}:
            lives[call.job] = max(lives.get(call.job, 0), call.began)
    for move in history.moves:
        if move.becomes not in {"pending", "in_progress"}:
            lives[move.job] = move.at
    return lives
