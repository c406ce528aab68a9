"""Whether the processes of the farm are there: they report themselves, and the silent are named (docs/adr/0042)."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from core.commands import MANAGE
from jobfarm.findings import Finding, Level
from jobs.domain import presence
from jobs.domain.presence import Part, Process, State
from jobs.queries.fleet import processes
from scheduling import operations as scheduling

# How a part is spoken of: as one, as several, and by what its absence means.
WORDS: Final = {
    Part.WEB: ("web process", "web processes", "no page is served, and no worker's call is answered"),
    Part.JANITOR: ("janitor", "janitors", "leases that run out, and jobs that wait too long, are not ended"),
}


class ProcessRow(NamedTuple):
    """One process in the list of them. `silent_s`: None for one that reports; `errors`: what it logged lately."""

    part: str
    host: str
    pid: int
    started_at: datetime
    silent_s: float | None = None
    errors: Sequence[str] = ()


def rows() -> list[ProcessRow]:
    """The processes of the farm that are there, and those that have fallen silent a moment ago."""
    clusters = [
        ProcessRow(f"cluster for {one.role}", one.host, one.pid, one.started_at, errors=one.errors)
        for one in scheduling.living()
    ]
    others = [
        ProcessRow(
            one.part, one.host, one.pid, one.started_at, one.silent_s if one.state is State.SILENT else None, one.errors
        )
        for one in processes() if one.state in {State.PRESENT, State.SILENT}
    ]  # fmt: skip
    return sorted([*others, *clusters], key=lambda row: (_PLACES.get(row.part, 2), row.part, row.started_at))


def counts() -> dict[str, int]:
    """Of each part how many processes report; a cluster is none of these."""
    reported = processes()
    return {part.value: len(presence.of(reported, part, State.PRESENT)) for part in Part}


LISTED: Final = 5  # errors that the finding names
_PLACES: Final = {"web": 0, "janitor": 1}


def janitors() -> Iterator[Finding]:
    return _of(Part.JANITOR, processes())


def web() -> Iterator[Finding]:
    return _of(Part.WEB, processes())


def errors() -> Iterator[Finding]:
    """What the processes of the farm logged as errors in the last minutes: what they put aside, by its name."""
    logged = {error: row for row in rows() for error in row.errors}
    if logged:
        named = [f"{row.part} {row.pid} on {row.host}: {error}" for error, row in logged.items()]
        yield Finding(
            f"Errors that processes logged in the last minutes: {len(logged)}.",
            f"Their logs have the tracebacks. {'; '.join(named[-LISTED:])}",
        )


def _of(part: Part, reported: Sequence[Process]) -> Iterator[Finding]:
    there = presence.of(reported, part, State.PRESENT)
    silent = presence.of(reported, part, State.SILENT)
    for process in silent:
        yield _silent(process, part, level=Level.WARNING if there else Level.ERROR)
    if there:
        one, several, _ = WORDS[part]
        noun = f"{one} runs" if len(there) == 1 else f"{several} run"
        yield Finding(f"{len(there)} {noun}.", level=Level.FINE)
    elif not silent:
        yield _missing(part, reported)


def _silent(process: Process, part: Part, *, level: Level) -> Finding:
    return Finding(
        f"A {WORDS[part][0]} has not reported for {process.silent_s:.0f} s.",
        f"It is pid {process.pid} on {process.host}: frozen (kill -CONT {process.pid} resumes it), "
        f"stuck, or killed. If it does not come back, end it (kill -9). {_start(part)}",
        level=level,
    )


def _missing(part: Part, reported: Sequence[Process]) -> Finding:
    noun, _, absence = WORDS[part]
    if presence.is_expected(reported, part):
        return Finding(f"No {noun} has reported yet.", level=Level.STARTING)
    remedy = _start(part)
    if last := next((process for process in reported if process.part == part), None):
        how = "was stopped" if last.has_ended else "stopped reporting"
        remedy += f" The last one, pid {last.pid} on {last.host}, {how} {_ago(last.silent_s)}."
    return Finding(f"No {noun} runs: {absence}.", remedy, level=Level.ERROR)


def _start(part: Part) -> str:
    return f"Start {MANAGE} {part} ({MANAGE} farm does)."


def _ago(seconds: float) -> str:
    for unit, length_s in (("hours", 7200), ("minutes", 120)):
        if seconds >= length_s:
            return f"{seconds // (length_s / 2):.0f} {unit} ago"
    return "a second ago" if seconds < 1.5 else f"{seconds:.0f} seconds ago"
