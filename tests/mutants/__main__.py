"""Take out each guard in turn, and say which of them the tests did not miss.

    .venv/bin/python -m tests.mutants                     # all, in a copy of this tree
    .venv/bin/python -m tests.mutants --only outbox       # those whose file or words have this in them
    .venv/bin/python -m tests.mutants --into table.md     # and write the table of docs/chaos.md

The exit code is 1 if a guard survived that `explained` says nothing about, or could not be tried.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import template
from tests.mutants.guards import Guard, listed

ROOT: Final = Path(__file__).parents[2]
LONGEST_S: Final = 400.0  # of one run: a guard may be what ends a loop
_FOUND, _SURVIVED = 1, 0  # how pytest ends: a test failed, or none


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one: found, survived, or broken where neither can be said."""

    guard: Guard
    word: str
    seconds: float


def main() -> int:
    """Try them; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--only", default="", help="those whose file or words have this in them")
    parser.add_argument("--without", default="never", help="leave out those whose tests have this in their names")
    parser.add_argument("--skip", type=int, default=0, help="so many of them: those that an earlier run has tried")
    parser.add_argument("--into", type=Path, help="a file for the table")
    options = parser.parse_args()
    # Migrations last: each of them needs a database of its own, and drops that of the others.
    matching = [one for one in listed() if options.only in str(one) and options.without not in one.tests]
    chosen = sorted(matching, key=_is_migration)
    verdicts = list[Verdict]()
    with _copy() as tree:
        for guard in chosen[options.skip :]:
            verdicts.append(_tried(guard, tree))
            print(f"{verdicts[-1].word:9} {verdicts[-1].seconds:4.0f} s  {guard}", flush=True)
    if options.into:
        options.into.write_text("\n".join(_table(verdicts)) + "\n")
    print(dict(Counter(verdict.word for verdict in verdicts)))
    return any(verdict.word == "broken" or _is_unexplained(verdict) for verdict in verdicts)


def _is_unexplained(verdict: Verdict) -> bool:
    return verdict.word == "survived" and not verdict.guard.explained


def _is_migration(guard: Guard) -> bool:
    return "/migrations/" in guard.file


@contextmanager
def _copy() -> Iterator[Path]:
    """The tree as it is, without what is not of it."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, stdout=subprocess.PIPE, check=True,
        ).stdout.decode()  # fmt: skip
        Path(folder).chmod(0o755)  # the embedded server runs as another user
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, Path(folder) / name)
        yield Path(folder)


def _tried(guard: Guard, tree: Path) -> Verdict:
    file, began = tree / guard.file, time.monotonic()
    whole = file.read_text()
    if whole.count(guard.text) < 1:
        return Verdict(guard, "broken", 0.0)
    file.write_text(whole.replace(guard.text, guard.instead))
    try:
        word = {_FOUND: "found", _SURVIVED: "survived"}.get(_run(guard, tree), "broken")
    except subprocess.TimeoutExpired:
        word = "found"  # it goes on for ever
    finally:
        file.write_text(whole)
    return Verdict(guard, word, time.monotonic() - began)


def _run(guard: Guard, tree: Path) -> int:
    environment = {**os.environ, "JOBFARM_DATA": str(ROOT / "var" / "mutants")}
    if not _is_migration(guard):  # the database is as it was made for the whole tree
        environment["JOBFARM_TEST_TEMPLATE"] = template.name().removeprefix("jobfarm_template_")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-m",
        "not long",
        "-p",
        "no:cacheprovider",
        *guard.tests.split(),
    ]
    with (tree / "output").open("ab") as output:
        return subprocess.run(
            command, cwd=tree, env=environment, timeout=LONGEST_S, check=False, stdout=output, stderr=output
        ).returncode


def _table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """By file, and what survived one by one."""
    yield "| file | guards | found |"
    yield "| --- | --- | --- |"
    files = Counter(verdict.guard.file for verdict in verdicts)
    found = Counter(verdict.guard.file for verdict in verdicts if verdict.word == "found")
    for file, count in sorted(files.items()):
        yield f"| `{file}` | {count} | {found[file]} |"
    for verdict in verdicts:
        if verdict.word != "found":
            yield f"- {verdict.word}: `{verdict.guard}`: {verdict.guard.explained or 'not explained'}"


if __name__ == "__main__":
    sys.exit(main())
