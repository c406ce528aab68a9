"""The farm names its examples in one place, the settings; the rest reads what they declare (examples/config.py)."""

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
SETTINGS = "jobfarm/settings.py"


def naming(paths: list[Path]) -> dict[str, list[str]]:
    """What each of these files names of an example."""
    found = {str(path.relative_to(ROOT)): NAMED.findall(path.read_text()) for path in paths}
    return {path: names for path, names in found.items() if names}


def test_only_the_settings_name_an_example() -> None:
    sources = [path for app in PRODUCT for path in tracked(f"{app}/*.py")]
    assert set(naming(sources)) == {SETTINGS}


def test_no_template_of_another_app_names_an_example() -> None:
    templates = [path for path in tracked("templates/*.html") if path.relative_to(ROOT).parts[1] not in NAMES]
    assert templates
    assert naming(templates) == {}
