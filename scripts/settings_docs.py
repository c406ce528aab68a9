"""Write the variables of jobfarm.environment.table to the end of docs/settings.md, from its first section of them on.

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


def page() -> str:
    return PAGE.read_text().partition("\n### ")[0] + "".join(_tables())


def _tables() -> Iterator[str]:
    examples = table.of_apps(environment.EXAMPLES.split(","))
    for title, variables in {**table.SECTIONS, "Examples": examples}.items():
        yield "\n".join(["", f"### {title}", "", *map(_row, variables), ""])


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
