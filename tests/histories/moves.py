"""What PostgreSQL recorded of each job's moves, by itself, beside the table, and beside what callers know: jobs move as
docs/states.md says, and nobody was answered anything else."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.histories.history import Call, History, Move
from tests.histories.lease_model import ENDED

_LATE_S = 0.05  # what the two clocks of one machine may differ in


def faults(history: History) -> Iterator[str]:
    """What is wrong with the moves, a sentence each."""
    by_job: dict[int, list[Move]] = defaultdict(list)
    for move in history.moves:
        by_job[move.job].append(move)
    by_caller: dict[int, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.job is not None and call.outcome != "unknown":
            by_caller[call.job].append(call)
    states = history.states or {}
    for job in sorted(by_job.keys() | by_caller.keys() | states.keys()):
        moves = by_job.get(job, [])
        parts = [_of_moves(moves), _of_callers(moves, by_caller[job])]
        if history.states is not None:
            parts.append(_of_table(moves, states.get(job)))
        yield from (f"job {job}: {fault}" for part in parts for fault in part)


def _of_moves(history: Sequence[Move]) -> Iterator[str]:
    before: Move | None = None
    for move in history:
        if move.was != (before.becomes if before else None):
            yield f"was {move.was}, after a move to {before.becomes if before else None}"
        if before is not None:
            yield from _of_one(before, move)
        before = move


def _of_one(before: Move, move: Move) -> Iterator[str]:
    match (move.was, move.becomes):
        case (was, _) if was in ENDED:
            yield f"moved on to {move.becomes} after its end as {was}"
        case ("pending", "in_progress"):
            if move.fence != before.fence + 1:
                yield f"claimed with fence {move.fence} after {before.fence}"
            if move.confirmed >= move.fence:
                yield f"claim {move.fence} was confirmed before anybody named it"
        case _ if move.fence != before.fence:
            yield f"fence {move.fence} after {before.fence}, and nobody claimed it"
        case ("in_progress", "in_progress") if move.worker != before.worker:
            yield f"claim {move.fence} went from worker {before.worker} to {move.worker}"
        case ("pending", "success" | "failed"):
            yield f"ended as {move.becomes} while nobody had it"


def _of_table(history: Sequence[Move], status: str | None) -> Iterator[str]:
    last = history[-1].becomes if history else None
    if last != status:
        yield f"the moves end with {last}, the table says {status}"


def _of_callers(history: Sequence[Move], calls: Sequence[Call]) -> Iterator[str]:
    taken = {move.fence: move for move in history if (move.was, move.becomes) == ("pending", "in_progress")}
    left = {move.fence: move for move in history if move.was == "in_progress" and move.becomes != "in_progress"}
    for one in calls:
        match one.call:
            case "submit":
                yield from [] if history or one.outcome != "ok" else ["was acknowledged and is not there"]
            case "cancel" if one.outcome == "ok":
                yield from _of_cancel(history, one)
            case "claim":
                yield from _of_claim(taken, one)
            case "finish":
                yield from _of_finish(left, one)
            case _:
                yield from _of_report(left, one)


def _of_claim(taken: Mapping[int, Move], one: Call) -> Iterator[str]:
    claim = taken.get(one.fence or 0)
    if one.outcome == "ok" and (claim is None or claim.worker != one.worker):
        yield f"worker {one.worker} was given claim {one.fence}, which is not its own"


def _of_report(left: Mapping[int, Move], one: Call) -> Iterator[str]:
    over = left.get(one.fence or 0) if one.outcome == "ok" else None
    if over is not None and one.call == "report" and one.began > over.at + _LATE_S:
        yield f"{one.call} of claim {one.fence} was accepted after the claim was over"


def _of_finish(left: Mapping[int, Move], one: Call) -> Iterator[str]:
    move = left.get(one.fence or 0)
    mine = move is not None and move.worker == one.worker and move.becomes in {"success", "failed", "pending"}
    if one.outcome == "ok":
        if not mine or move is None or (one.answer == "success") != (move.becomes == "success"):
            yield f"claim {one.fence} was answered {one.answer}, and it ended as {move.becomes if move else None}"
    elif move is not None and move.becomes == "success":
        yield f"claim {one.fence} was refused its finish ({one.answer}), and the job is its success"


def _of_cancel(history: Sequence[Move], one: Call) -> Iterator[str]:
    ended = next((move for move in history if move.becomes in ENDED), None)
    if ended is None:
        yield f"was answered {one.answer}, and has not ended"
    elif one.answer == "too_late":
        if ended.at > one.over + _LATE_S:
            yield "was answered too_late before its end"
    elif ended.becomes != "canceled":
        yield f"was answered {one.answer}, and ended as {ended.becomes}"
    elif (ended.was == "in_progress") != (one.answer == "canceled_while_running"):
        yield f"was answered {one.answer}, and was {ended.was}"
    elif one.answer == "canceled_before_start" and ended.confirmed > 0:
        yield f"was answered canceled_before_start, and claim {ended.confirmed} had run"
    elif one.answer == "canceled_before_retry" and ended.confirmed == 0:
        yield "was answered canceled_before_retry, and nobody had run it"
