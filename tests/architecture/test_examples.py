"""The farm names its examples in one place; the rest reads what they declare (examples/config.py)."""

import re
from pathlib import Path

from tests.architecture.test_tidiness import ROOT, tracked

NAMES = sorted(path.parent.name for path in tracked("examples/*/apps.py"))
# An import, the label of a table or permission, the name of an address, a path of pages or templates. A bare "chat" is
# a kind of jobs, which the worker brings along; "chat/completions" is a call of OpenAI's API, and "chat.completion" how
# its answers call themselves.
_QUOTED = rf"[\"'](?!chat/completions\b|chat\.completion\b)(?:{'|'.join(NAMES)})[.:/-]\w"
NAMED = re.compile(rf"\bexamples\.(?:{'|'.join(NAMES)})\b|{_QUOTED}|\bimagegame\b")
PRODUCT = (
    "accounts",
    "alerts",
    "core",
    "jobfarm",
    "jobs",
    "live",
    "observing",
    "openai_api",
    "outbox",
    "postgres",
    "ratelimits",
    "scheduling",
    "webhooks",
)
ENVIRONMENT = "jobfarm/environment/__init__.py"


def naming(paths: list[Path]) -> dict[str, list[str]]:
    """What each of these files names of an example."""
    found = {str(path.relative_to(ROOT)): NAMED.findall(path.read_text()) for path in paths}
    return {path: names for path, names in found.items() if names}


def test_only_what_a_farm_to_try_out_has_names_an_example() -> None:
    sources = [path for app in PRODUCT for path in tracked(f"{app}/*.py")]
    assert set(naming(sources)) == {ENVIRONMENT}


def test_no_template_of_another_app_names_an_example() -> None:
    templates = [*tracked("templates/*.html")]
    assert templates
    assert naming(templates) == {}
