"""Whether what is recorded can have been: jobs move as DESIGN section 5 says, and nobody was told anything else."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jobs.domain.states import ENDED
from tests.hammer.recording import Call, Move

_ENDED = {status.value for status in ENDED}
_LATE_S = 0.05  # what the two clocks of one machine may differ in


def faults(moves: Sequence[Move], calls: Iterable[Call], statuses: Mapping[int, str]) -> list[str]:
    """What is wrong, a sentence each: of the moves by themselves, beside the tables, and beside what callers know."""
    by_job: dict[int, list[Move]] = defaultdict(list)
    for move in moves:
        by_job[move.job].append(move)
    by_caller: dict[int, list[Call]] = defaultdict(list)
    for one in calls:
        by_caller[one.job].append(one)
    found: list[str] = []
    for job in sorted(by_job.keys() | by_caller.keys() | statuses.keys()):
        history = by_job.get(job, [])
        parts = (_of_moves(history), _of_table(history, statuses.get(job)), _of_callers(history, by_caller[job]))
        found += [f"job {job}: {what}" for part in parts for what in part]
    return found


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
        case (was, _) if was in _ENDED:
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
                yield from [] if history else ["was acknowledged and is not there"]
            case "cancel":
                yield from _of_cancel(history, one)
            case "claim":
                yield from _of_claim(taken, one)
            case "finish":
                yield from _of_finish(left, one)
            case _:
                yield from _of_report(left, one)


def _of_claim(taken: Mapping[int, Move], one: Call) -> Iterator[str]:
    claim = taken.get(one.fence or 0)
    if claim is None or claim.worker != one.worker:
        yield f"worker {one.worker} was given claim {one.fence}, which is not its own"


def _of_report(left: Mapping[int, Move], one: Call) -> Iterator[str]:
    over = left.get(one.fence or 0) if one.answer == "done" else None
    if over is not None and one.began > over.at + _LATE_S:
        yield f"{one.call} of claim {one.fence} was accepted after the claim was over"


def _of_finish(left: Mapping[int, Move], one: Call) -> Iterator[str]:
    assert one.fence is not None
    move = left.get(one.fence)
    mine = move is not None and move.worker == one.worker and move.becomes in {"success", "failed", "pending"}
    if one.answer in {"success", "failed", "pending"}:
        if not mine or move is None or (one.answer == "success") != (move.becomes == "success"):
            yield f"claim {one.fence} was told {one.answer}, and it ended as {move.becomes if move else None}"
    elif move is not None and move.becomes == "success":
        yield f"claim {one.fence} was refused its finish ({one.answer}), and the job is its success"


def _of_cancel(history: Sequence[Move], one: Call) -> Iterator[str]:
    ended = next((move for move in history if move.becomes in _ENDED), None)
    if ended is None:
        yield f"was told {one.answer}, and has not ended"
    elif one.answer == "too_late":
        if ended.at > one.ended + _LATE_S:
            yield "was told too_late before its end"
    elif ended.becomes != "canceled":
        yield f"was told {one.answer}, and ended as {ended.becomes}"
    elif (ended.was == "in_progress") != (one.answer == "canceled_while_running"):
        yield f"was told {one.answer}, and was {ended.was}"
    elif one.answer == "canceled_before_start" and ended.confirmed > 0:
        yield f"was told canceled_before_start, and claim {ended.confirmed} had run"
    elif one.answer == "canceled_before_retry" and ended.confirmed == 0:
        yield "was told canceled_before_retry, and nobody had run it"
