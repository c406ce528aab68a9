"""OpenAI's own client for Node.js and Anthropic's, as the registry of npm has it (tests/openai_api/node)."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.forkserver import ROOT
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import END, USAGE, ModelServer, Script, completion, delta, streamed, whole
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
SOURCE = ROOT / "tests/openai_api/node"
KEPT = ROOT / "var/node/openai"  # from one run to the next, for as long as the lock says the same
CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "sea"}'}}
LOCK = "package-lock.json"


@pytest.fixture(scope="module")
def folder() -> Path:
    """A folder with the clients, installed as the lock says."""
    if not (KEPT / LOCK).exists() or (KEPT / LOCK).read_bytes() != (SOURCE / LOCK).read_bytes():
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=KEPT.parent))
        for name in ("package.json", LOCK):
            shutil.copy(SOURCE / name, new)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(command, cwd=new, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        shutil.rmtree(KEPT, ignore_errors=True)
        new.rename(KEPT)
    shutil.copy(SOURCE / "calls.mjs", KEPT)
    return KEPT


def test_calls_of_a_program_on_node(
    server: Server, model: ModelServer, working: Working, key: str, folder: Path
) -> None:
    vector = {"object": "embedding", "index": 0, "embedding": [0.5, -1]}
    model.scripts = [
        whole(**completion("Hello.")), streamed("Hel", "lo."),
        whole(object="list", model="tiny", data=[vector], usage=USAGE),
        whole(**completion("Hello.")), streamed("Hel", "lo."), whole(text="Spoken."),
        whole(**completion("Hello.")), Script([delta(content="I look."), delta(tool_calls=[CALL]), *END]),
    ]  # fmt: skip
    with working():
        seen = _run(folder, server, key)
    assert seen["models"] == ["tiny"]
    assert (seen["chat"], seen["chunks"], seen["usage"]) == ("Hello.", ["", "Hel", "lo.", None, None], 5)
    assert seen["embedding"] == [0.5, -1]
    assert seen["response"] == ["completed", "Hello."]
    numbers, kinds = zip(*seen["events"], strict=True)
    assert numbers == tuple(range(10))
    assert (kinds[0], kinds[4], kinds[-1]) == ("response.created", "response.output_text.delta", "response.completed")
    assert seen["resumed"] == [5, 6, 7, 8, 9]
    assert seen["items"] == ["user"]
    assert seen["text"] == "Spoken."
    assert seen["message"] == ["Hello.", "end_turn", 2]
    assert seen["tool"] == [["text", "tool_use"], {"at": "sea"}, "tool_use"]
    assert seen["counted"] > 0
    assert seen["error"] == [404, "not_found_error", "string"]
    assert seen["refusal"] == [404, "model_not_found"]


def _run(folder: Path, server: Server, key: str) -> Any:
    openai = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": key}
    environment = {**os.environ, **openai, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": key}
    done = subprocess.run(
        ["node", "calls.mjs"], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)
