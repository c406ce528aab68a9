"""Codex, OpenAI's agent at a terminal, as npm has it, before a model server that has chats alone."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job
from tests.forkserver import ROOT
from tests.openai_api import npm
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import END, ModelServer, Script, delta, streamed
from tests.servers import Server

pytestmark = [pytest.mark.landing, pytest.mark.django_db(transaction=True)]  # 424 MB of program
CONFIG = """
model = "tiny"
model_provider = "farm"
check_for_update_on_startup = false
analytics.enabled = false
feedback.enabled = false
features.plugins = false  # else it clones their list

[model_providers.farm]
name = "farm"
base_url = "{url}/v1"
env_key = "FARM_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
EXEC = ("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
COMMAND = {"name": "exec_command", "arguments": '{"cmd": "echo $((6 * 7)) lanterns"}'}


LEFT_OUT = ("client_metadata", "include", "reasoning.summary", "the tool namespace", "the tool web_search")


@pytest.fixture
def environment(server: Server, key: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A home of its own, from which nothing goes beyond this machine: it would come to a socket, where nothing does."""
    (tmp_path / "config.toml").write_text(CONFIG.format(url=server.url))
    with socket.create_server(("127.0.0.1", 0)) as outside:
        proxy = {"HTTPS_PROXY": f"http://127.0.0.1:{outside.getsockname()[1]}", "NO_PROXY": "127.0.0.1"}
        yield {**os.environ, **proxy, "HOME": str(tmp_path), "CODEX_HOME": str(tmp_path), "FARM_KEY": key}
        outside.settimeout(0)
        with pytest.raises(BlockingIOError):
            outside.accept()


def test_it_answers_and_goes_on_by_the_output_of_what_the_model_runs(
    environment: dict[str, str], model: ModelServer, working: Working
) -> None:
    calling = delta(tool_calls=[{"index": 0, "id": "c", "type": "function", "function": COMMAND}])
    model.scripts = [
        Script([delta(reasoning_content="They wait."), delta(content="Hello."), *END]),
        Script([delta(content="I look."), calling, delta(finish="tool_calls"), *END[1:]]),
        streamed("There are ", "42."),
    ]
    with working():
        assert _messages(_codex(environment, "Say hello.")) == ["Hello."]
        events = _codex(environment, "resume", "--last", "How many lanterns are there?")
        refused = _codex(environment, "--model", "huge", "Say hello.", exits_with=1)
    assert _messages(events) == ["I look.", "There are 42."]
    system, hello, answer, question, turn, output = model.requests[2]["messages"]
    assert (system["role"], hello["role"]) == ("system", "user")
    assert hello["content"].endswith("\n\nSay hello.")
    assert answer == {"role": "assistant", "content": "Hello."}
    assert question == {"role": "user", "content": "How many lanterns are there?"}
    call = {"id": "c", "type": "function", "function": COMMAND}
    assert turn == {"role": "assistant", "content": "I look.", "tool_calls": [call]}
    assert (output["role"], output["tool_call_id"]) == ("tool", "c")
    assert "Process exited with code 0" in output["content"]
    assert output["content"].endswith("42 lanterns\n")
    notes = [f"Left out: {what}. The model server has chat/completions alone." for what in LEFT_OUT]
    assert [job.result["jobfarm"]["notes"] for job in Job.objects.all()] == [notes] * 3
    assert refused[-1]["error"]["message"] == "No worker offers the model 'huge' now. Offered are: tiny."


def _codex(environment: dict[str, str], *words: str, exits_with: int = 0) -> list[dict[str, Any]]:
    """The events of `codex exec` with these words."""
    program = npm.installed(ROOT / "tests/openai_api/codex") / "node_modules/.bin/codex"
    done = subprocess.run(
        ["timeout", "--kill-after=5", "120", program, *EXEC, *words],  # ends what the script of npm starts, too
        cwd=environment["HOME"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == exits_with, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _messages(events: list[dict[str, Any]]) -> list[str]:
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item["text"] for item in items if item["type"] == "agent_message"]
