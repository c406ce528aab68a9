"""Write deploy/prometheus/alerts.yml: the rules that jobfarm's conditions declare.

`make docs` calls this; tests/operations/test_alerts.py fails when the file is not what it writes.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import django

if TYPE_CHECKING:
    from jobfarm.findings import Rule

FILE: Final = Path(__file__).resolve().parents[1] / "deploy" / "prometheus" / "alerts.yml"
HEAD: Final = """\
# Written by scripts/alert_rules.py (`make docs`) from the conditions that the farm's own alerts and doctor know too.
# What wakes somebody (critical) or is looked at the next morning (warning). docs/alerts.md says of each what to do.
# Nodes are scraped as the job `jobfarm` (prometheus.yml); what they tell alike is taken once, by max.
groups:
  - name: jobfarm
    rules:
"""


def text() -> str:
    from jobfarm.alert_conditions import RULES  # noqa: PLC0415 (Django is set up by then)

    return HEAD + "".join(f"{line}\n" for rule in RULES for line in _lines(rule))


def _lines(rule: "Rule") -> Iterator[str]:
    yield f"      - alert: {rule.name}"
    yield f"        expr: '{rule.expr}'"
    if rule.lasts:
        yield f"        for: {rule.lasts}"
    yield f"        labels: {{severity: {rule.severity}}}"
    yield "        annotations:"
    yield f'          summary: "{rule.summary}"'
    yield f"          runbook: docs/alerts.md#{rule.name.lower()}"


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    django.setup()
    FILE.write_text(text())
