"""Write docs/settings.md: the text of settings_docs.md, and the variables of jobfarm.environment.table.

`make docs` calls this; tests/jobfarm/unit/test_settings_docs.py fails when the page is not what it writes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from jobfarm import environment
from jobfarm.environment import table
from jobfarm.environment.table import Variable

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "settings.md"
TEXT: Final = Path(__file__).with_suffix(".md")
PLACE: Final = "{variables}\n"


def page() -> str:
    return TEXT.read_text().replace(PLACE, "\n".join(_tables()))


def _tables() -> Iterator[str]:
    examples = table.of_apps(environment.EXAMPLES.split(","))
    for title, variables in {**table.SECTIONS, "Examples": examples}.items():
        yield f"### {title}\n"
        yield from map(_row, variables)
        yield ""


def _row(variable: Variable) -> str:
    notes = "; ".join(filter(None, ["*secret*" * variable.is_secret, _default(variable)]))
    return f"- `{variable.name}`{f' ({notes})' if notes else ''}: {variable.meaning}"


def _default(variable: Variable) -> str:
    shown = variable.shown or _text(variable.default)
    return f"{shown} {variable.unit}".strip()


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float):
        return f"{value:,.12g}"
    return f"`{','.join(value)}`" if isinstance(value, list) and value else f"`{value}`" if value else ""


if __name__ == "__main__":
    PAGE.write_text(page())
