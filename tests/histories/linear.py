"""Whether the calls about one job can have happened in some order that their times allow and the model permits, and if
not, which few of them already cannot.

A search per job, as Wing and Gong describe it, with Lowe's memo: a call that was answered happened at one moment
between its beginning and its end; one whose answer nobody knows may have happened at any moment after its beginning, or
never. What may happen without being noted (`lease_model.by_itself`) may happen at any moment.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tests.histories.history import FOREVER, Call
from tests.histories.lease_model import State, after, by_itself

MOST_STATES: Final = 300_000


class TooLarge(Exception):
    """A job has more orders than are searched."""


def can_be(calls: Sequence[Call], *, hidden_from: float = FOREVER, forgets: bool = False) -> bool:
    """Whether there is such an order. `hidden_from`: since when somebody may have claimed without hearing an answer;
    `forgets`: a crash may have taken reports back.

    Raises TooLarge after `MOST_STATES`."""
    certain = [call for call in calls if call.outcome != "unknown"]
    maybe = [call for call in calls if call.outcome == "unknown"]
    begin = State(status="absent" if any(call.call == "submit" for call in calls) else "pending")
    return _search(certain, maybe, begin, hidden_from=hidden_from, forgets=forgets)


def core(calls: Sequence[Call], *, hidden_from: float = FOREVER, forgets: bool = False) -> list[Call]:
    """Of calls that cannot be, few that already cannot be whatever became of the others: each is needed for that."""
    left = sorted(calls, key=lambda call: call.began)
    for call in list(left):
        place = left.index(call)
        doubted = [*left[:place], _unsure(call), *left[place + 1 :]]
        if call.outcome != "unknown" and not can_be(doubted, hidden_from=hidden_from, forgets=forgets):
            left = doubted
    return [call for call in left if call.outcome != "unknown"]


def _search(certain: Sequence[Call], maybe: Sequence[Call], begin: State, *, hidden_from: float, forgets: bool) -> bool:
    everything = (1 << len(certain)) - 1
    last = max((call.fence or 0 for call in (*certain, *maybe)), default=0) + 1  # more claims explain nothing else
    stack, seen = [(0, begin)], {(0, begin)}
    while stack:
        done, state = stack.pop()
        if done == everything:
            return True
        for node in _next(done, state, certain, maybe, hidden_from=hidden_from, hidden=last, forgets=forgets):
            if node not in seen:
                seen.add(node)
                stack.append(node)
        if len(seen) > MOST_STATES:
            raise TooLarge
    return False


def _next(
    done: int,
    state: State,
    certain: Sequence[Call],
    maybe: Sequence[Call],
    *,
    hidden_from: float,
    hidden: int,
    forgets: bool,
) -> Iterator[tuple[int, State]]:
    """What can come next: nothing that began after one had ended that is not done yet. A call that may be does not
    count as done: its effect comes once or, which changes nothing, is noted again."""
    left = [(place, call) for place, call in enumerate(certain) if not done >> place & 1]
    latest = min(call.over for _, call in left)
    yield from ((done, new) for new in by_itself(state, hidden=hidden if hidden_from <= latest else 0, forgets=forgets))
    for call in maybe:
        if call.began <= latest:
            yield from ((done, new) for new in after(state, call))
    for place, call in left:
        if call.began <= latest:
            yield from ((done | 1 << place, new) for new in after(state, call))


def _unsure(call: Call) -> Call:
    """The same call, of which nobody knows whether it happened: it had any answer."""
    return Call(
        call=call.call, outcome="unknown", process=call.process, began=call.began, job=call.job, fence=call.fence,
        worker=call.worker, more=call.more,
    )  # fmt: skip
