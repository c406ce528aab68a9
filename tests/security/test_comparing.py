"""Secrets are compared in constant time, or looked up by their hash; nowhere with `==`."""

import ast
import re
from pathlib import Path

import pytest
from django.conf import settings

APPS = ("accounts", "jobs", "live", "webhooks", "ratelimits", "jobfarm", "examples")
_SECRET = re.compile(r"secret|signature|digest|hmac|token_hash|key_hash|password|bearer", re.IGNORECASE)
# Nobody guesses here: a person's own two fields of a form, an operator's own file, a secret and itself without spaces.
_HARMLESS = {"password != again", "key == settings.SECRET_KEY", "secret != secret.strip()"}


def _comparisons(path: Path) -> list[str]:
    """The equality comparisons of a module that are about something secret; with a constant nothing is."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
            continue
        text, sides = ast.unparse(node), (node.left, *node.comparators)
        is_constant = any(isinstance(side, ast.Constant) for side in sides)
        if _SECRET.search(text) and not is_constant and text not in _HARMLESS:
            found.append(text)
    return found


@pytest.mark.parametrize("app", APPS)
def test_no_secret_is_compared_with_equals(app: str) -> None:
    modules = [path for path in (Path(settings.BASE_DIR) / app).rglob("*.py") if "migrations" not in path.parts]
    assert {str(path): found for path in modules if (found := _comparisons(path))} == {}


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    module = tmp_path / "bad.py"
    module.write_text("def check(given, secret):\n    return hmac_of(given) == secret or given.signature != right\n")
    assert len(_comparisons(module)) == 2
