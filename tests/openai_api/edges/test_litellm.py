"""litellm as a client: chats, messages, responses and embeddings, and errors by its names of them."""

import json
import os
import subprocess
import sys

import pytest

from tests.forkserver import ROOT
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import ModelServer, by_request
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


def test_calls_of_a_program_on_litellm(server: Server, model: ModelServer, working: Working, key: str) -> None:
    model.answer = by_request
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # else it asks the network for prices
    environment = {**os.environ, **quiet, "BASE_URL": server.url, "API_KEY": key}
    command = [sys.executable, "-m", "tests.openai_api.litellm_calls"]
    with working():
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
    assert done.returncode == 0, done.stdout + done.stderr
    hello, called = ["Hello.", "stop", 5], ["look", {"at": "sea"}, "tool_calls"]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "chats": {"whole": hello, "streamed": hello, "awaited": hello, "called": called, "streams a call": called},
        "messages": {"whole": hello, "streamed": hello, "awaited": hello, "called": called, "streams a call": called},
        "refused": [["NotFoundError", 404], ["NotFoundError", 404], ["AuthenticationError", 401]],
        "its messages": [[{"type": "text", "text": "Hello."}], "end_turn"],
        "embeddings": [[0, 0.5], [1, 0.5]],
        "response": "Hello.",
    }
