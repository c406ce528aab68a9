"""Write jobs/migrations/functions.sql: each function and trigger of the heart as it stands, which many migrations made.

`make docs` calls this; tests/jobs/integration/test_functions.py fails when the file is not what it writes, or not what
the database has.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from postgres.schema import REVERSE

FOLDER: Final = Path(__file__).resolve().parents[1] / "jobs" / "migrations"
FILE: Final = FOLDER / "functions.sql"
HEAD: Final = """\
-- Every function and trigger of the heart, as the last migration left it: to be read, nothing runs this file.
-- Written by scripts/functions.py (`make docs`) from the migrations beside it, what they say of each oldest first.
"""
_STATEMENT: Final = re.compile(
    r"(?P<about>(?:^--.*\n)*)"
    r"^(?P<verb>CREATE|DROP) (?:OR REPLACE )?(?P<what>FUNCTION|(?:CONSTRAINT )?TRIGGER) (?P<name>\w+)"
    r"(?P<rest>\((?P<arguments>[^;]*?)\)[^;]*?\$\$[\s\S]*?\$\$;|(?:\((?P<types>[^;]*)\))?[^;]*;)\n",
    re.MULTILINE,
)
_SAME: Final = 40  # characters of a remark: one that begins like another takes its place


@dataclass(slots=True)
class _Entry:
    began: str
    about: dict[str, str] = field(default_factory=dict)
    made: dict[int, str] = field(default_factory=dict)  # by the number of arguments


def text() -> str:
    """The whole file."""
    entries: dict[str, _Entry] = {}
    for migration, match in _statements():
        key = f"{match['what']} {match['name']}"
        entry = entries.setdefault(key, _Entry(began=migration))
        count = _count(match["arguments"] or match["types"] or "")
        if match["verb"] == "DROP":
            del entry.made[count]
            entry.about.clear()
        else:
            entry.about[match["about"][:_SAME]] = match["about"]
            entry.made[count] = f"CREATE {key}{match['rest']}\n"
    return HEAD + "".join(_written([entry for entry in entries.values() if entry.made]))


def _statements() -> Iterator[tuple[str, re.Match[str]]]:
    for file in sorted(FOLDER.glob("0*.sql")):
        forwards, _ = file.read_text(encoding="utf-8").split(REVERSE)
        yield from ((file.stem, match) for match in _STATEMENT.finditer(forwards))


def _count(arguments: str) -> int:
    given = [each for each in arguments.split(",") if each.strip() and not each.strip().startswith("OUT ")]
    return len(given)


def _written(entries: list[_Entry]) -> Iterator[str]:
    """In sections: what a migration began, as far as it is left."""
    for section in dict.fromkeys(entry.began for entry in entries):
        yield f"\n\n-- {section}\n"
        for entry in entries:
            if entry.began == section:
                made = [entry.made[count] for count in sorted(entry.made, reverse=True)]
                yield "\n" + "".join([*entry.about.values(), *made])


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
