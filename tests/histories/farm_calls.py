"""The calls that a farm wrote down itself (`recorder`), as those of a history."""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.histories.history import Call, History

Line = Mapping[str, Any]
Part = tuple[int | None, int | None]  # a job, and the claim that is spoken for
_NAMES: Final = {"claim": "claim", "finish": "finish", "finish_and_claim": "finish", "release": "release",
                 "withdraw": "withdraw", "cancel": "cancel", "store": "submit", "store_recent": "submit"}  # fmt: skip


def read(path: Path) -> History:
    """The history in this file, whether a farm wrote it or a run of the tests."""
    with gzip.open(path, "rt") as file:
        lines = [json.loads(line) for line in file]
    history = History.of(line for line in lines if "id" not in line)
    history.calls += calls(line for line in lines if "id" in line)
    history.may_forget |= any("id" in line for line in lines)
    return history


def calls(lines: Iterable[Line]) -> Iterator[Call]:
    """The calls of these lines, of whichever processes. What was claimed before, or by who is not recorded, was so at
    any moment: a claim is unknown from the beginning on."""
    begun: dict[tuple[str, int], Line] = {}
    for line in lines:
        key = line["process"], line["id"]
        if not begun:
            yield Call(call="claim", outcome="unknown", began=line["began"])
        if "began" in line:
            begun[key] = line
        else:
            yield from _ended(begun[key], line)
            begun[key] = {}
    for line in filter(None, begun.values()):
        nobodys: Sequence[Part] = [(None, None)]
        for job, fence in _parts(line) or nobodys:
            yield Call(**_common(line), call=_name(line), outcome="unknown", job=job, fence=fence)
        if line["claims"]:
            yield Call(**_common(line), call="claim", outcome="unknown")


def _ended(line: Line, end: Line) -> Iterator[Call]:
    result: Any = end["answer"]
    claimed: Sequence[Part] = []
    parts = _parts(line)
    if line["operation"] == "claim":
        result, claimed = [], result if isinstance(result, list) else []
    elif line["operation"] == "finish_and_claim" and isinstance(result, list):
        result, claimed = result
    elif line["operation"] == "withdraw" and isinstance(result, list):
        newest = dict(sorted(parts, key=lambda part: part[1] or 0))
        result = ["withdrawn" if job in result and newest[job] == fence else "kept" for job, fence in parts]
    elif _name(line) == "release" and result is None:
        result = "released"
    elif _name(line) == "submit":
        parts = [(job, None) for job in result] if isinstance(result, list) else parts
        result = None
    answers = result if isinstance(result, list) else [result] * len(parts)
    for (job, fence), answer in zip(parts, answers, strict=True):
        refused = isinstance(answer, Mapping)
        word = answer["error"] if isinstance(answer, Mapping) else answer if isinstance(answer, str) else None
        outcome = "failed" if refused else "ok"
        ended = {"ended": end["ended"], "job": job, "fence": fence, "answer": word}
        yield Call(**_common(line), **ended, call=_name(line), outcome=outcome)
    for job, fence in claimed:
        yield Call(**_common(line), ended=end["ended"], call="claim", job=job, fence=fence)


def _name(line: Line) -> str:
    return _NAMES.get(line["operation"], "report")


def _parts(line: Line) -> Sequence[Part]:
    match line["args"]:
        case [job] if line["operation"] == "cancel":
            return [(job, None)]
        case [_, int(job), int(fence)]:
            return [(job, fence)]
        case [_, list(pairs)]:
            return [(job, fence) for job, fence in pairs]
    return []


def _common(line: Line) -> dict[str, Any]:
    is_worker = _name(line) not in {"cancel", "submit"}
    return {"process": line["process"], "began": line["began"], "worker": line["args"][0] if is_worker else None}
