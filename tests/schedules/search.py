"""Which schedules are tried: all of them up to a number of switches, or such as a seed draws; and how a failing one is
made shorter."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.schedules.actors import Choose, Play, Step

Schedule = tuple[str, ...]
Run = Callable[[Choose], "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a schedule came to, and what was wrong afterwards."""

    play: Play
    faults: Sequence[str] = ()


def following(schedule: Sequence[str]) -> Choose:
    """Go on as this schedule says for as long as that can be, then with whoever went last."""
    left = iter(schedule)

    def choose(could: Sequence[str], last: str | None) -> str:
        wanted = next(left, last)
        if wanted in could:
            return str(wanted)
        return last if last in could and last is not None else could[0]

    return choose


def drawing(rng: random.Random) -> Choose:
    """Go on with the same one for a while, drawn anew; then with another."""

    def choose(could: Sequence[str], last: str | None) -> str:
        return last if last in could and last is not None and rng.random() < 0.6 else rng.choice(could)

    return choose


def every(run: Run, *, switches: int | None = None) -> Iterator[Outcome]:
    """Every schedule there is, each once; with `switches` those in which an actor that could go on has to stop for
    another no more often than that."""
    prefixes: list[Schedule] = [()]
    while prefixes:
        prefix = prefixes.pop()
        outcome = run(following(prefix))
        yield outcome
        steps = outcome.play.steps
        if outcome.play.schedule[: len(prefix)] != prefix:
            continue  # a statement more or less than in the run it was drawn from: those beyond are not comparable
        for place in range(len(prefix), len(steps)):
            before = outcome.play.schedule[:place]
            others = [name for name in steps[place].could if name != steps[place].went]
            prefixes += [
                (*before, name)
                for name in others
                if switches is None or _switches(steps[:place], (*before, name), steps[place].could) <= switches
            ]


def shrunk(run: Run, schedule: Schedule) -> tuple[Schedule, Outcome]:
    """A schedule with fewer steps that are prescribed, and what it comes to: it fails as well."""
    outcome = run(following(schedule))
    size = max(1, len(schedule) // 2)
    while size:
        place = 0
        while place < len(schedule):
            shorter = schedule[:place] + schedule[place + size :]
            tried = run(following(shorter))
            if tried.faults:
                schedule, outcome = shorter, tried
            else:
                place += size
        size //= 2
    return schedule, outcome


def _switches(steps: Sequence[Step], schedule: Schedule, could: Sequence[str]) -> int:
    """How often somebody had to stop who could have gone on."""
    sets = [*(step.could for step in steps), could]
    return sum(
        schedule[place] != schedule[place - 1] and schedule[place - 1] in sets[place]
        for place in range(1, len(schedule))
    )
