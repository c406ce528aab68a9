"""A farm to which nobody added the examples has nothing of theirs."""

import json
import os
from typing import Any, Final

import pytest

from jobfarm.environment import EXAMPLES
from tests import forkserver

# One process that reports all that apps add to a farm, each kind of thing as a list of words.
REPORT: Final = """
import json
import django
django.setup()
from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.db.migrations.loader import MigrationLoader
from django.urls import get_resolver
from jobfarm import administration, navigation
from jobs import kinds
from live import registry as live
from ratelimits import limits
from scheduling import registry
from scheduling.operations import crons

def addresses(resolver):
    for each in resolver.url_patterns:
        yield str(each.pattern)
        yield from addresses(each) if hasattr(each, "url_patterns") else ()

print(json.dumps({
    "tables": [model._meta.label for model in apps.get_models()],
    "migrations": [f"{app} {name}" for app, name in MigrationLoader(None).graph.nodes],
    "addresses": list(addresses(get_resolver())),
    "administration": [model._meta.label for model in admin.site._registry],
    "sidebar": [label for _, _, tables in administration._SECTIONS for label, _ in tables],
    "rights": sorted(administration.ACTIONS),
    "navigation": [name for name, *_ in navigation.BAR],
    "live queries": [query.name for query in live.everything()],
    "limits": list(limits.everything()),
    "functions": [function.name for function in registry.everything()],
    "crons": list(crons._declared),
    "settings": list(settings.OF_APPS),
    "kinds": [repr(kind) for kind in kinds.DECLARED.values()],
}))
"""
OF_THEIRS: Final = ("chat", "game", "translation", "document")
NOT_OF_THEIRS: Final = ("chat/completions",)  # a call of OpenAI's API


def _reported(**environment: str) -> dict[str, list[str]]:
    given = {name: os.environ[name] for name in ("PATH", "HOME", "JOBFARM_DATA") if name in os.environ}
    given |= {"JOBFARM_ENV_FILE": "", "DJANGO_SETTINGS_MODULE": "jobfarm.settings", **environment}
    done = forkserver.run(["-c", REPORT], env=given, timeout=90, check=True)
    reported: dict[str, Any] = json.loads(done.stdout)
    return reported


def _theirs(words: list[str]) -> list[str]:
    return [
        word for word in words
        if any(name in word.lower() for name in OF_THEIRS) and not any(name in word for name in NOT_OF_THEIRS)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def without() -> dict[str, list[str]]:
    return _reported()


@pytest.fixture(scope="module")
def added() -> dict[str, list[str]]:
    return _reported(JOBFARM_APPS=EXAMPLES)


def test_has_nothing_of_theirs(without: dict[str, list[str]]) -> None:
    kinds = without.pop("kinds")
    assert {what: found for what, words in without.items() if (found := _theirs(words))} == {}
    assert len(_theirs(kinds)) == 1, "chat, without the limit of the example"
    assert "limit=None" in _theirs(kinds)[0]


def test_has_all_of_theirs_when_they_are_added(added: dict[str, list[str]]) -> None:
    assert [what for what, words in added.items() if not _theirs(words)] == []
    assert "limit='chat completion tokens'" in _theirs(added["kinds"])[0]
