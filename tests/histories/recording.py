"""Writing a history down while it happens: a file for each process, a line when a call begins and one when it ends.

What a process has not written when it is killed, nobody knows: its calls that began are unknown."""

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from tests.histories.history import Call

Part = tuple[int | None, int | None]  # a job, and the claim that is spoken for
NOBODYS: Final[Sequence[Part]] = ((None, None),)


def _now() -> float:
    """By the machine's clock, also where a worker of the chaos has `time.time` go wrong."""
    return time.clock_gettime(time.CLOCK_REALTIME)


class Open:
    """A call under way. What it is answered is noted job by job; nothing noted: each of its parts was answered well."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.answers: list[dict[str, Any]] | None = None

    def answer(
        self, job: int | None, fence: int | None = None, word: object = "", *, is_refusal: bool = False, call: str = "",
        **more: Any,
    ) -> None:  # fmt: skip
        """Note what it was answered about this job. `call`: of what it did besides."""
        self.answers = self.answers or []
        facts = {"call": call or self._name, "job": job, "fence": fence, "answer": str(word) or None, "more": more}
        self.answers.append({**facts, "outcome": "failed" if is_refusal else "ok"})

    def note_claimed(self, claimed: Iterable[Part]) -> None:
        """Note the claims that it brought, also none."""
        self.nothing()
        for job, fence in claimed:
            self.answer(job, fence, call="claim")

    def nothing(self) -> None:
        """It was answered, and concerned no job."""
        self.answers = self.answers or []


class Recorder:
    """Writes the calls of one process, whichever of its threads makes them."""

    def __init__(self, file: TextIO, *, process: str, refuses: Callable[[Exception], bool] = lambda _: False) -> None:
        """`refuses`: of which exceptions the farm has changed nothing. After any other, nobody knows."""
        self._file, self._process, self._refuses = file, process, refuses
        self._numbers, self._lock = itertools.count(1), threading.Lock()

    @contextlib.contextmanager
    def call(
        self, name: str, /, *, worker: int | str | None = None, parts: Sequence[Part] = NOBODYS, **more: Any
    ) -> Iterator[Open]:
        """A call that begins with the block and has ended with it."""
        number, call = next(self._numbers), Open(name)
        self._write(id=number, began=_now(), call=name, worker=worker, parts=list(parts), more=more)
        try:
            yield call
        except Exception as error:
            if not self._refuses(error):
                raise
            for job, fence in parts if call.answers is None else ():
                call.answer(job, fence, getattr(error, "code", type(error).__name__), is_refusal=True)
            self._end(number, call)
            raise
        for job, fence in parts if call.answers is None else ():
            call.answer(job, fence)
        self._end(number, call)

    def _end(self, number: int, call: Open) -> None:
        self._write(id=number, ended=_now(), answers=call.answers)

    def _write(self, **line: Any) -> None:
        with self._lock:
            self._file.write(json.dumps({"process": self._process, **line}) + "\n")
            self._file.flush()


def calls(paths: Iterable[Path]) -> Iterator[Call]:
    """The calls that processes wrote down. A last line that a kill has cut off was not written."""
    for path in sorted(paths):
        yield from parsed(path.read_text().splitlines(keepends=True))


def parsed(texts: Iterable[str]) -> Iterator[Call]:
    """The calls of these lines, which one process wrote."""
    begun: dict[int, dict[str, Any]] = {}
    for text in texts:
        line = json.loads(text) if text.endswith("\n") else {}
        if "began" in line:
            begun[line["id"]] = line
        elif "ended" in line:
            yield from _ended(begun.pop(line["id"]), line)
    for line in begun.values():
        yield from _unknown(line)


def _ended(begin: dict[str, Any], end: dict[str, Any]) -> Iterator[Call]:
    for answer in end["answers"] or ():
        yield Call(**_common(begin), ended=end["ended"], **answer | {"more": begin["more"] | answer["more"]})


def _unknown(begin: dict[str, Any]) -> Iterator[Call]:
    for job, fence in begin["parts"]:
        yield Call(**_common(begin), call=begin["call"], outcome="unknown", job=job, fence=fence, more=begin["more"])
    if begin["more"].get("claims"):  # and what it might have claimed besides
        yield Call(**_common(begin), call="claim", outcome="unknown")


def _common(begin: dict[str, Any]) -> dict[str, Any]:
    return {field: begin[field] for field in ("process", "began", "worker")}
