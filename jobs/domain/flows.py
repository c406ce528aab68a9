"""Jobs that come after others: what may be asked for, and how the names of one call become an order."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from jobs.errors import InvalidValue

MOST_INTO: Final = 10_000  # edges into one job
MOST_OUT: Final = 1_000  # and out of one
DEEPEST: Final = 1_000  # jobs one after another
RESULTS_BYTES: Final = 4_000_000  # of what a job comes after, that its claim brings
LONGEST_NAME: Final = 100
LARGEST_ID: Final = 2**63 - 1


WAITED: Final = "waited"  # the condition of an edge to a job that the other one submitted, and was suspended for


class Condition(StrEnum):
    """How those have to end that a job comes after."""

    SUCCESS = "success"
    ENDED = "ended"


def condition(when: str | None) -> Condition:
    """What is asked for; None is a success. Raises InvalidValue."""
    try:
        return Condition(when or Condition.SUCCESS)
    except ValueError:
        raise InvalidValue(field="when", why=f'"success" or "ended", not {when!r}') from None


def checked_name(text: str, *, field: str = "name", longest: int = LONGEST_NAME) -> str:
    """A name within a flow, of a signal, or what a signal is about (`field`), as it is. Raises InvalidValue."""
    if not 1 <= len(text) <= longest or not text.isprintable() or text != text.strip():
        raise InvalidValue(field=field, why=f"1 to {longest} printable characters, no space at its ends")
    return text


def after(named: Iterable[int | str]) -> tuple[int | str, ...]:
    """Ids of jobs, and names of the same call, each once. Raises InvalidValue."""
    references = tuple(dict.fromkeys(named))
    if len(references) > MOST_INTO:
        raise InvalidValue(field="after", why=f"{MOST_INTO:,} jobs at most, got {len(references):,}")
    for one in references:
        if type(one) is not str and not (type(one) is int and 1 <= one <= LARGEST_ID):
            raise InvalidValue(field="after", why=f"no job has the id {one}")
    return references


def places(names: Sequence[str | None], references: Mapping[int, Sequence[int | str]]) -> dict[int, tuple[int, ...]]:
    """Of each job of a call, by its place, the places of those that it names (`references`).

    Raises InvalidValue for a name that two have or none has, and for a circle, with its path.
    """
    known: dict[str, int] = {}
    for place, text in enumerate(names):
        if text is not None and known.setdefault(text, place) != place:
            raise InvalidValue(field="name", why=f"two jobs of one call are called {text!r}")
    before: dict[int, tuple[int, ...]] = {}
    for place, named in references.items():
        missing = [one for one in named if isinstance(one, str) and one not in known]
        if missing:
            raise InvalidValue(field="after", why=f"no job of this call is called {missing[0]!r}")
        before[place] = tuple(known[one] for one in named if isinstance(one, str))
    if circle := _circle(before):
        path = " -> ".join(names[place] or "" for place in circle)
        raise InvalidValue(field="after", why=f"they wait for one another in a circle: {path}")
    return before


def depths(before: Mapping[int, Sequence[int]], outside: Mapping[int, int]) -> dict[int, int]:
    """How many jobs come one after another before each of these, by its place; `outside`: what those of other calls
    that it comes after make of it. There is no circle."""
    known = dict[int, int]()
    for first in before:
        waiting = [first]
        while waiting:
            place = waiting[-1]
            if missing := [one for one in before.get(place, ()) if one not in known]:
                waiting += missing
                continue
            known[place] = max((known[one] + 1 for one in before.get(place, ())), default=0)
            known[place] = max(known[place], outside.get(place, 0))
            waiting.pop()
    return known


def downstream(first: int, after: Mapping[int, Sequence[int]]) -> list[int]:
    """A job and all that came after it, in the order of `after`: what each comes after, whoever comes first first."""
    known = {first}
    for job, before in after.items():
        if not known.isdisjoint(before):
            known.add(job)
    return [job for job in after if job in known]


def _circle(before: Mapping[int, Sequence[int]]) -> list[int]:
    """The places of a circle, its first once more at its end, in the order in which each comes after the next."""
    done: set[int] = set()
    for first in before:
        path: list[int] = []
        on_path: set[int] = set()
        waiting = [(first, 0)]
        while waiting:
            place, depth = waiting.pop()
            while len(path) > depth:
                left = path.pop()
                on_path.discard(left)
                done.add(left)
            if place in on_path:
                return [*path[path.index(place) :], place]
            if place in done:
                continue
            path.append(place)
            on_path.add(place)
            waiting += [(one, depth + 1) for one in before.get(place, ())]
        done.update(path)
    return []
