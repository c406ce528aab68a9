"""docs/front-door.md names the clients that tests call, in their versions."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
CLIENTS = ROOT / "tests/openai_api"


def test_the_page_names_each_client_of_the_tests_in_its_version() -> None:
    requirements = "".join((ROOT / name).read_text() for name in ("requirements.txt", "requirements-dev.txt"))
    versions = re.findall(r"^(openai|anthropic|litellm)==(\S+)", requirements, re.MULTILINE)
    for folder in ("node", "codex"):
        named = json.loads((CLIENTS / folder / "package.json").read_text())["dependencies"]
        versions += [item for item in named.items() if item[0] not in ("openai", "zod")]
    [listed] = re.findall(r"^- tests: .*?(?=^- )", (ROOT / "docs/front-door.md").read_text(), re.MULTILINE | re.DOTALL)
    pairs = re.findall(r"`([^`]+)`\s+([\d.]+)", listed)
    assert len(versions) == 9
    assert set(versions) <= set(pairs)
    node = json.loads((CLIENTS / "node/package.json").read_text())["dependencies"]["openai"]
    assert f" and {node} for Node.js" in listed
