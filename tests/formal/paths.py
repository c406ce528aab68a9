"""Whether jobs went as docs/formal/lease.pml allows: what PostgreSQL recorded of each, with the calls that it was
answered by, is a path of that model, or the first step is named that is none.

A search follows all paths at once: it goes on only where the model's state is the recorded one, and a step that can be
taken is of the recorded kind. What nobody records (a lease runs out, an answer is lost, a signal comes) may happen at
any moment.
"""

import itertools
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from django.conf import settings

from tests.histories.history import Call, History, Move

MODEL: Final = Path(__file__).parents[2] / "docs" / "formal" / "lease.pml"
ANY: Final = "any"  # step: nobody knows which it was
NO_STEP: Final = 255
_ENDS: Final = frozenset({"finish", "release", "withdraw"})
_KINDS: Final = {"release": "releases", "withdraw": "withdraws"}
_VERDICTS: Final = {
    "canceled_before_start": "before_start", "canceled_before_retry": "before_retry", "too_late": "too_late",
    "canceled_while_suspended": "while_suspended", "canceled_while_running": "while_running",
}  # fmt: skip


class Step(NamedTuple):
    """One step, and how the job is after it. `what`: of a claim the worker's place, of a cancel its verdict, of a call
    once more its answer; 0 if nobody knows."""

    kind: str
    status: str
    fence: int
    confirmed: int
    what: int | str = 0


Way = tuple[Step, ...]


def faults(history: History, folder: Path) -> list[str]:
    """A sentence for each job that went a way which the model does not know."""
    ways = dict(_ways(history))
    ends = followed(set(ways.values()), folder)
    return [
        f"job {job}: {way[ends[way]]} is no step of the model after {', '.join(step.kind for step in way[: ends[way]])}"
        for job, way in sorted(ways.items()) if ends[way] < len(way)
    ]  # fmt: skip


def _ways(history: History) -> Iterator[tuple[int, Way]]:
    """Of each job that was submitted while moves were recorded."""
    moves: dict[int, list[Move]] = defaultdict(list)
    calls: dict[int, list[Call]] = defaultdict(list)
    for move in history.moves:
        moves[move.job].append(move)
    for call in history.calls:
        if call.job is not None:
            calls[call.job].append(call)
    for job, those in moves.items():
        if those[0].was is None and those[0].fence == 0:
            yield job, way_of(those, calls[job])


def way_of(moves: Sequence[Move], calls: Sequence[Call]) -> Way:
    """The steps of one job. What was answered well although no move is of it comes last, as a step that nothing
    allows."""
    answered = [call for call in calls if call.outcome == "ok" and call.answer != "kept"]
    ends: dict[int | None, list[Call]] = defaultdict(list)
    for call in answered:
        if call.call in _ENDS:
            ends[call.fence].append(call)
    doubted = {call.fence for call in calls if call.call in _ENDS and call.outcome == "unknown"}
    workers: dict[int | None, int] = {}
    steps = []
    for before, move in itertools.pairwise(moves):
        is_end = before.becomes == "in_progress" != move.becomes
        mine = ends.pop(move.fence) if is_end and _is_of(ends[move.fence], move) else []
        kind = _kind(before, move, mine, doubted)
        what = workers.setdefault(move.worker, len(workers) + 1) if kind == "claims" else _verdict(kind, answered)
        steps.append(Step(kind, move.becomes, move.fence, move.confirmed, what))
        steps += [steps[-1]._replace(kind="repeats", what=_answer(call)) for call in mine[1:]]
    last = Step("", moves[-1].becomes, moves[-1].fence, moves[-1].confirmed)
    steps += [last._replace(kind="cancels", what=verdict) for verdict in _late(answered)]
    named = {before.fence for before in moves if before.confirmed == before.fence}
    never = [call for call in answered if call.call in {"report", "checkpoint", "child"} and call.fence not in named]
    return (
        *steps,
        *(last._replace(kind=_kind_of(call)) for call in [*never, *(end for of in ends.values() for end in of)]),
    )


def _is_of(ends: Sequence[Call], move: Move) -> bool:
    """Whether this is what the first of these calls was answered."""
    return bool(ends) and move.becomes == (ends[0].answer if ends[0].call == "finish" else "pending")


def _kind(before: Move, move: Move, mine: Sequence[Call], doubted: set[int | None]) -> str:
    match before.becomes, move.becomes:
        case "pending", "in_progress":
            return "claims"
        case "in_progress", "in_progress":
            return "confirms"
        case _, "canceled":
            return "cancels"
        case "pending", "timed_out":
            return "expires"
        case _, "success" | "failed":
            return "finishes"
    if mine:
        return _kind_of(mine[0])
    return ANY if move.fence in doubted else "loses"


def _kind_of(call: Call) -> str:
    if call.call in _KINDS:
        return _KINDS[call.call]
    if call.call != "finish":
        return "confirms"
    return "suspends" if str(call.job) in call.more.get("waits", {}) else "finishes"


def _answer(call: Call) -> str:
    return "released" if call.call == "release" else str(call.answer)


def _verdict(kind: str, answered: Sequence[Call]) -> int | str:
    words = {call.answer for call in answered if call.call == "cancel"} - {"too_late"}
    return _VERDICTS[str(words.pop())] if kind == "cancels" and len(words) == 1 else 0


def _late(answered: Sequence[Call]) -> list[str]:
    return ["too_late"] if any(call.call == "cancel" and call.answer == "too_late" for call in answered) else []


def followed(ways: set[Way], folder: Path) -> dict[Way, int]:
    """How many steps of each way the model allows, one after another."""
    listed = sorted(ways, key=repr)
    starts, rows = list[int](), list[Step]()
    for way in listed:
        starts.append(len(rows))
        rows += [Step("", "pending", 0, 0), *way]
    reached = _search(starts, rows, folder) if ways else set[int]()
    return {
        way: next((n for n in range(len(way)) if start + n + 1 not in reached), len(way))
        for way, start in zip(listed, starts, strict=True)
    }


def _search(starts: Sequence[int], rows: Sequence[Step], folder: Path) -> set[int]:
    """The rows at which some run of the model comes."""
    (folder / "paths.pml").write_text(_header(starts, rows) + MODEL.read_text())
    for command in (
        ["spin", "-a", "paths.pml"], ["gcc", "-O0", "-w", "-DSAFETY", "-DNOCLAIM", "-o", "pan", "pan.c"],
    ):  # fmt: skip
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    found = subprocess.check_output(["./pan", "-A", "-E", "-m100000"], cwd=folder, text=True)
    assert "max search depth too small" not in found
    return {int(number) for number in re.findall(r"^reached (\d+)$", found, re.MULTILINE)}


def _header(starts: Sequence[int], rows: Sequence[Step]) -> str:
    """What stands before the model: its bounds, the rows, and that nothing else happens than they say."""
    workers = [row.what for row in rows if row.kind == "claims" and isinstance(row.what, int)]
    columns = _columns(rows)
    return f"""
#define WORKERS {max([2, *workers])}
#define CANCELS 2
#define CLAIMS {max(row.fence for row in rows) + 1}
#define MAX_FAILURES 250
#define MOST_UNCONFIRMED {settings.JOBFARM["UNCONFIRMED_LEASES"]}
#define LAST_FAILURE true
#define LOST_FOR_GOOD true
#define IS_OPEN false
#define IS_NEXT(step) (r_kind[at + 1] == step || r_kind[at + 1] == 0)
#define MAY_BE_SILENT(w) (IS_AS_RECORDED && IS_NEXT(loses))
#define IS_AS_RECORDED (status == r_status[at] && fence == r_fence[at] && confirmed_fence == r_confirmed[at])
#define RECORDED(step, way) (IS_AS_RECORDED && IS_NEXT(step) && (r_what[at + 1] == way || r_what[at + 1] == 0))
#define FOLLOWS at++; if :: IS_AS_RECORDED -> c_code {{ printf("reached %d\\n", now.at); }} :: else fi
#define BEGINS again = true; c_code {{ {" ".join(map(_filled, columns, columns.values()))} }}; if {
        " ".join(f":: at = {start}" for start in starts)
    } fi
{"".join(f"hidden byte r_{name}[{len(rows) + 1}];" for name in columns)}
int at;
"""


def _columns(rows: Sequence[Step]) -> Mapping[str, Sequence[int]]:
    """The rows as the model has them: names are numbers."""
    numbers = _numbers(MODEL.read_text()) | {"": NO_STEP, ANY: 0}
    return {
        "kind": [*(numbers[row.kind] for row in rows), NO_STEP],
        "status": [numbers[row.status] for row in rows],
        "fence": [row.fence for row in rows],
        "confirmed": [row.confirmed for row in rows],
        "what": [row.what if isinstance(row.what, int) else numbers[row.what] for row in rows],
    }


def _filled(name: str, column: Sequence[int]) -> str:
    listed = ", ".join(map(str, column))
    return f"static unsigned char {name}[] = {{ {listed} }}; memcpy(r_{name}, {name}, sizeof {name});"


def _numbers(model: str) -> dict[str, int]:
    """Which number Spin gives each name: those of a list from its end on."""
    numbers: dict[str, int] = {}
    for names in re.findall(r"^mtype = \{ (.*?) \};", model, re.MULTILINE):
        for name in reversed(names.split(", ")):
            numbers[name] = len(numbers) + 1
    return numbers
