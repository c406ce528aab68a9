"""What docs/front-door.md says of the fields of a call, for a server that has `chat/completions` alone."""

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "front-door.md"


def rows(path: str) -> Iterator[tuple[str, list[str], str]]:
    """Of what (nothing: of the call itself), the names, and what becomes of them: each row of the table of `path`
    that names some."""
    _, _, rest = PAGE.read_text().partition(f"| field | of a server without `{path}` |\n| --- | --- |\n")
    for line in takewhile(lambda line: line.startswith("|"), rest.splitlines()):
        field, what = re.fullmatch(r"\| (.*?) \| (.*) \|", line).groups()  # type: ignore[union-attr]
        of, _, names = field.rpartition(": ")
        if names.startswith("`"):
            yield of.strip("`"), re.findall(r"`([^`]+)`", names), what


def named(path: str, *, of: str = "", what: str = "") -> list[str]:
    """The names of which the table says that they become something that begins so."""
    return [name for part, names, becomes in rows(path) if part == of and becomes.startswith(what) for name in names]
