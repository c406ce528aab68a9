"""What a history is: calls as their callers know them, and facts beside them. JSON lines, gzipped; a line each.

A call has a line for each job that it was about. `outcome`: "ok" (answered), "failed" (refused), "unknown" (nobody
knows whether it happened: the answer was lost, or the caller died). Times are those of one machine's clock, in seconds.
"""

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

FOREVER: Final = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call about one job, or about none. `answer` is the word that it was answered or refused with."""

    call: str
    outcome: str = "ok"
    process: str = ""
    began: float = 0.0
    ended: float | None = None
    job: int | None = None
    fence: int | None = None
    worker: int | str | None = None
    answer: str | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def over(self) -> float:
        """When it had happened at the latest; never, of one whose answer nobody knows."""
        return FOREVER if self.ended is None or self.outcome == "unknown" else self.ended

    def __str__(self) -> str:
        by = f"worker {self.worker}" if self.worker is not None else self.process or "somebody"
        fence = "" if self.fence is None else f" of claim {self.fence}"
        answer = {"ok": f"was answered {self.answer or 'ok'}", "failed": f"was refused ({self.answer})"}
        end = "" if self.ended is None else f" to {self.ended:.3f}"
        return f"{self.call}{fence} by {by} {answer.get(self.outcome, 'got no answer')} ({self.began:.3f}{end})"


@dataclass(frozen=True, slots=True)
class Move:
    """One change of a job's status or of its fences as PostgreSQL recorded it, in their order; `at` by the same
    clock."""

    job: int
    was: str | None
    becomes: str
    fence: int
    confirmed: int
    worker: int | None
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """So much is held at most, at any moment: jobs that run, or with `rate` what is taken of a limit, which so much
    comes back to in a second; `until` a moment, when it is lifted."""

    name: str
    most: float
    rate: float | None = None
    until: float | None = None


@dataclass(slots=True, kw_only=True)
class History:
    """A whole run. `states`: how each job stands at the end; `within`: the bounds that it counts in; `lists`: what the
    append-only lists hold at the end. None: nobody looked. `may_forget`: the server may have crashed, which takes back
    the reports of its last second (`jobs.operations.heartbeat`)."""

    calls: list[Call] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)
    states: dict[int, str] | None = None
    within: dict[int, list[str]] = field(default_factory=dict)
    lists: dict[str, list[int]] | None = None
    may_forget: bool = False

    @classmethod
    def read(cls, path: Path) -> Self:
        """The history in this file."""
        with gzip.open(path, "rt") as file:
            return cls.of(map(json.loads, file))

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]]) -> Self:
        """The history of these lines."""
        made = cls()
        for line in lines:
            match line:
                case {"fact": "move", **rest}:
                    made.moves.append(Move(**rest))
                case {"fact": "bound", **rest}:
                    made.bounds.append(Bound(**rest))
                case {"fact": "state", "job": job, "status": status}:
                    made.states = {} if made.states is None else made.states
                    made.states[job] = status
                case {"fact": "within", "job": job, "names": names}:
                    made.within[job] = names
                case {"fact": "may forget"}:
                    made.may_forget = True
                case {"fact": "list", "key": key, "entries": entries}:
                    made.lists = {} if made.lists is None else made.lists
                    made.lists[key] = entries
                case _:
                    made.calls.append(Call(**line))
        return made

    def lines(self) -> Iterator[dict[str, Any]]:
        """The lines of its file."""
        yield from (asdict(call) for call in self.calls)
        yield from ({"fact": "move", **asdict(move)} for move in self.moves)
        yield from ({"fact": "bound", **asdict(bound)} for bound in self.bounds)
        yield from ({"fact": "state", "job": job, "status": status} for job, status in (self.states or {}).items())
        yield from ({"fact": "within", "job": job, "names": names} for job, names in self.within.items())
        yield from [{"fact": "may forget"}] if self.may_forget else []
        yield from ({"fact": "list", "key": key, "entries": each} for key, each in (self.lists or {}).items())

    def write(self, path: Path) -> None:
        """Keep it in this file."""
        with gzip.open(path, "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in self.lines())
