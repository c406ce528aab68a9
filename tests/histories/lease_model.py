"""The model of one job that calls are held against: a status, the claim that speaks for it, and what leases that are
over were answered. As docs/formal/lease.pml has it; here a step is a call with the answer that it got."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from tests.histories.history import Call

ENDED: Final = frozenset({"success", "failed", "canceled", "timed_out"})
LOST: Final = "lease_lost"


class State(NamedTuple):
    """A job at one moment. `worker` None while somebody has it whom no call names; `answers`: (claim, answer)."""

    status: str = "absent"
    fence: int = 0
    confirmed: int = 0
    worker: int | str | None = None
    answers: frozenset[tuple[int, str]] = frozenset()

    def is_of(self, call: Call) -> bool:
        """Whether the lease that a call names speaks for the job."""
        return self.status == "in_progress" and self.fence == call.fence and self.worker in {None, call.worker}

    def ending(self, call: Call, status: str, answer: str) -> "State":
        """After its worker said that the attempt is over."""
        assert call.fence is not None
        answers = self.answers | {(call.fence, answer)}
        return self._replace(status=status, confirmed=self.fence, worker=None, answers=answers)


def after(state: State, call: Call) -> Iterator[State]:
    """How the job may be after this call, given its answer. Nothing: it cannot have happened in this state."""
    if call.outcome == "failed" and call.answer != LOST:
        yield state  # a refusal for another reason says nothing about the job
    elif (step := _STEPS.get(call.call)) is None:
        yield state
    elif call.outcome == "unknown":
        yield from (end for word in _MAYBE[call.call] for end in step(state, call, word))
    else:
        yield from step(state, call, call.answer if call.outcome == "ok" else LOST)


def by_itself(state: State, *, hidden: int = 0, forgets: bool = False) -> Iterator[State]:
    """What may become of it without a call that is known: its lease runs out, it expires, and somebody claims it who
    heard no answer; `hidden` is the last claim that may be such a one. `forgets`: a crash may take back its reports."""
    if state.status == "in_progress":
        if forgets and state.confirmed == state.fence:
            yield state._replace(confirmed=0)
        for confirmed in {state.confirmed, state.fence}:
            for status in ("pending", "timed_out"):
                yield state._replace(status=status, confirmed=confirmed, worker=None)
    elif state.status == "pending":
        yield state._replace(status="timed_out")
        if state.fence < hidden:
            yield state._replace(status="in_progress", fence=state.fence + 1, worker=None)


def _submit(state: State, *_: object) -> Iterator[State]:
    if state.status == "absent":
        yield state._replace(status="pending")


def _claim(state: State, call: Call, _: str | None) -> Iterator[State]:
    if state.status == "pending" and call.fence == state.fence + 1:
        yield state._replace(status="in_progress", fence=call.fence, worker=call.worker)
    elif state.is_of(call) and state.confirmed < state.fence:
        yield state._replace(worker=call.worker)  # the same call again: its answer was lost


def _report(state: State, call: Call, answer: str | None) -> Iterator[State]:
    if state.is_of(call) and answer != LOST:
        yield state._replace(confirmed=state.fence, worker=call.worker)
    elif answer == LOST and not _surely(state, call):
        yield state


def _finish(state: State, call: Call, answer: str | None) -> Iterator[State]:
    if answer == LOST:
        if not _surely(state, call) and not _has_finished(state, call):
            yield state
    elif answer is not None and (call.fence, answer) in state.answers:
        yield state  # the same call again is answered as the first time
    elif answer is not None and state.is_of(call):
        yield state.ending(call, answer, answer)


def _release(state: State, call: Call, answer: str | None) -> Iterator[State]:
    if answer == LOST:
        if not _surely(state, call) and (call.fence, "released") not in state.answers:
            yield state
    elif (call.fence, "released") in state.answers:
        yield state
    elif state.is_of(call):
        yield state.ending(call, "pending", "released")


def _withdraw(state: State, call: Call, answer: str | None) -> Iterator[State]:
    """Answered "kept" where the lease was named before, or is lost."""
    if answer == "withdrawn" and state.is_of(call) and state.confirmed < state.fence:
        yield state._replace(status="pending", worker=None)
    elif answer == "kept" and not (_surely(state, call) and state.confirmed < state.fence):
        yield state


def _cancel(state: State, call: Call, answer: str | None) -> Iterator[State]:
    match answer, state.status:
        case ("too_late", status) if status in ENDED and call.more.get("status", status) == status:
            yield state
        case ("canceled_while_running", "in_progress"):
            yield state._replace(status="canceled", worker=None)
        case ("canceled_before_start", "pending") if state.confirmed == 0:
            yield state._replace(status="canceled")
        case ("canceled_before_retry" | "canceled_while_suspended", "pending") if state.confirmed > 0:
            yield state._replace(status="canceled")


def _read(state: State, _: Call, answer: str | None) -> Iterator[State]:
    if state.status == answer:
        yield state


def _has_finished(state: State, call: Call) -> bool:
    return any(fence == call.fence and answer != "released" for fence, answer in state.answers)


def _surely(state: State, call: Call) -> bool:
    return state.is_of(call) and state.worker is not None


_Step = Callable[[State, Call, str | None], Iterator[State]]
_STEPS: Final[Mapping[str, _Step]] = {
    "submit": _submit, "claim": _claim, "report": _report, "finish": _finish, "release": _release,
    "withdraw": _withdraw, "cancel": _cancel, "read": _read, "child": _report, "checkpoint": _report,
}  # fmt: skip
# Which answers a call might have got that nobody heard.
_MAYBE: Final[Mapping[str, tuple[str, ...]]] = {
    "submit": ("",), "claim": ("",), "report": ("",), "child": ("",),
    "checkpoint": ("",), "finish": ("success", "failed", "pending"), "release": ("",),
    "withdraw": ("withdrawn",), "read": (),
    "cancel": ("canceled_while_running", "canceled_before_start", "canceled_before_retry"),
}  # fmt: skip
