"""Write the files that are made from the code, beside docs/python.md (scripts/python_docs.py): in docs/settings.md the
variables, from its first section of them on; deploy/prometheus/alerts.yml, the rules that the farm's conditions
declare; jobs/migrations/functions.sql, each function and trigger of the heart as it stands, which
many migrations made.

`make docs` calls this; a test of each file fails when it is not what this writes.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import django

from jobfarm import environment
from jobfarm.environment import table
from jobfarm.environment.table import Variable
from postgres.schema import REVERSE

if TYPE_CHECKING:
    from jobfarm.findings import Rule

ROOT: Final = Path(__file__).resolve().parents[1]
SETTINGS: Final = ROOT / "docs" / "settings.md"
ALERTS: Final = ROOT / "deploy" / "prometheus" / "alerts.yml"
FUNCTIONS: Final = ROOT / "jobs" / "migrations" / "functions.sql"
_ALERTS_HEAD: Final = """\
# Written by scripts/generated.py (`make docs`) from the conditions that the farm's own alerts and doctor know too.
# What wakes somebody (critical) or is looked at the next morning (warning). docs/alerts.md says of each what to do.
# Nodes are scraped as the job `jobfarm` (prometheus.yml); what they tell alike is taken once, by max.
groups:
  - name: jobfarm
    rules:
"""
_FUNCTIONS_HEAD: Final = """\
-- Every function and trigger of the heart, as the last migration left it: to be read, nothing runs this file.
-- Written by scripts/generated.py (`make docs`) from the migrations beside it, what they say of each oldest first.
"""
_STATEMENT: Final = re.compile(
    r"(?P<about>(?:^--.*\n)*)"
    r"^(?P<verb>CREATE|DROP) (?:OR REPLACE )?(?P<what>FUNCTION|(?:CONSTRAINT )?TRIGGER) (?P<name>\w+)"
    r"(?P<rest>\((?P<arguments>[^;]*?)\)[^;]*?\$\$[\s\S]*?\$\$;|(?:\((?P<types>[^;]*)\))?[^;]*;)\n",
    re.MULTILINE,
)
_SAME: Final = 40  # characters of a remark: one that begins like another takes its place


def settings() -> str:
    return SETTINGS.read_text().partition("\n### ")[0] + "".join(_tables())


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


def alerts() -> str:
    from jobfarm.alert_conditions import RULES  # noqa: PLC0415 (Django is set up by then)

    return _ALERTS_HEAD + "".join(f"{line}\n" for rule in RULES for line in _lines(rule))


def _lines(rule: "Rule") -> Iterator[str]:
    yield f"      - alert: {rule.name}"
    yield f"        expr: '{rule.expr}'"
    if rule.lasts:
        yield f"        for: {rule.lasts}"
    yield f"        labels: {{severity: {rule.severity}}}"
    yield "        annotations:"
    yield f'          summary: "{rule.summary}"'
    yield f"          runbook: docs/alerts.md#{rule.name.lower()}"


@dataclass(slots=True)
class _Entry:
    began: str
    about: dict[str, str] = field(default_factory=dict)
    made: dict[int, str] = field(default_factory=dict)  # by the number of arguments


def functions() -> str:
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
    return _FUNCTIONS_HEAD + "".join(_written([entry for entry in entries.values() if entry.made]))


def _statements() -> Iterator[tuple[str, re.Match[str]]]:
    for file in sorted(FUNCTIONS.parent.glob("0*.sql")):
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
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    django.setup()
    SETTINGS.write_text(settings())
    ALERTS.write_text(alerts())
    FUNCTIONS.write_text(functions(), encoding="utf-8")
