"""Clients for Node.js, as the registry of npm has them: OpenAI's own, Anthropic's, and Vercel's AI SDK."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job
from tests import farm
from tests.forkserver import ROOT
from tests.openai_api import npm
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import (
    END,
    LOOK,
    USAGE,
    ModelServer,
    Script,
    by_request,
    completion,
    delta,
    streamed,
    whole,
)  # fmt: skip
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def folder() -> Path:
    """A folder with the clients, and the scripts that call them."""
    return npm.installed(ROOT / "tests/openai_api/node")


def test_calls_of_a_program_on_node(
    server: Server, model: ModelServer, working: Working, key: str, folder: Path
) -> None:
    vector = {"object": "embedding", "index": 0, "embedding": [0.5, -1]}
    model.scripts = [
        whole(**completion("Hello.")), streamed("Hel", "lo."),
        whole(object="list", model="tiny", data=[vector], usage=USAGE),
        whole(**completion("Hello.")), streamed("Hel", "lo."), whole(text="Spoken."),
        whole(**completion("Hello.")), Script([delta(content="I look."), delta(tool_calls=[LOOK]), *END]),
    ]  # fmt: skip
    openai = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": key}
    with working():
        seen = _run(folder, "calls.mjs", **openai, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=key)
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


def test_calls_of_the_ai_sdk(server: Server, model: ModelServer, working: Working, key: str, folder: Path) -> None:
    """Chats by its client for any such server and by its OpenAI's, responses, and messages: alike."""
    model.answer = by_request
    usage, lighthouse = [3, 2, 5], {"name": "Eddystone", "feet": 161}
    with working():
        seen = _run(folder, "ai.mjs", BASE_URL=f"{server.url}/v1", API_KEY=key)
        canceled = Job.objects.filter(outcome__status="canceled")
        farm.until(lambda: canceled.count() == 4, what="the cancel of what was aborted")
    for called in seen["called"]:
        assert called == {
            "whole": ["Hello.", "stop", usage], "streamed": [["Hel", "lo."], "stop", usage],
            "stepped": ["Hello.", ["tool-calls", "stop"]], "flowing": ["Hello.", ["tool-calls", "stop"]],
            "object": lighthouse, "output": lighthouse,
        }  # fmt: skip
    results = [request["messages"][-1] for request in model.requests if len(request.get("messages", [])) == 3]
    assert results == [{"role": "tool", "tool_call_id": "c", "content": "The sea is rough."}] * 8
    assert seen["embeddings"] == [[0, 0.5], [1, 0.5]]
    assert seen["refused"] == [[404, False, "No worker offers the model 'huge' now. Offered are: tiny."]] * 4
    assert seen["aborted"] == 4
    paths = ["chat/completions", "chat/completions", "messages", "responses"]
    assert sorted(job.payload["path"] for job in canceled) == paths


def _run(folder: Path, script: str, **environment: str) -> Any:
    """What the script printed as JSON."""
    done = subprocess.run(
        ["node", script], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)
