"""The tools for agents, called over standard input and output by the protocol's own client, on a real farm."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from jobfarm_client.mcp import WAIT_S
from tests.api.edges.callers import Crew
from tests.client.integration.test_calls import begun, finish
from tests.farm import status
from tests.forkserver import ROOT
from tests.servers import Server

COMMAND = [sys.executable, "-m", "jobfarm_client.mcp"]


@pytest.fixture
def agent(server: Server, token: str) -> Callable[[Callable[["Agent"], Awaitable[Any]]], Any]:
    """Runs what an agent does, with a server process of its own."""

    def run(does: Callable[["Agent"], Awaitable[Any]]) -> Any:
        return asyncio.run(_with_agent(server.url, token, does))

    return run


class Agent:
    """Calls tools."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.progress: list[tuple[float, str | None]] = []
        self.reported = asyncio.Event()

    async def call(self, tool: str, **arguments: Any) -> Any:
        """What a tool answers; its refusal as a text."""
        answer = await self.client.call_tool(tool, arguments, progress_callback=self._note)
        return answer.content[0].text if answer.is_error else answer.structured_content  # type: ignore[union-attr]

    async def _note(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, message))
        self.reported.set()


async def _with_agent(url: str, token: str, does: Callable[[Agent], Awaitable[Any]]) -> Any:
    environment = {"JOBFARM_URL": url, "JOBFARM_TOKEN": token, "PYTHONPATH": str(ROOT)}
    parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=environment)
    async with Client(parameters) as client:
        return await does(Agent(client))


Run = Callable[[Callable[[Agent], Awaitable[Any]]], Any]


class TestTools:
    def test_are_the_five_each_with_a_description(self, agent: Run) -> None:
        async def does(agent: Agent) -> Any:
            return (await agent.client.list_tools()).tools

        tools = {tool.name: tool for tool in agent(does)}
        assert set(tools) == {"submit", "status", "wait", "cancel", "list"}
        assert all(tool.description for tool in tools.values())
        assert set(tools["submit"].input_schema["properties"]) == {
            "kind", "payload", "unique_key", "on_conflict", "requires", "prefers", "tags",
        }  # fmt: skip
        assert tools["cancel"].annotations.destructive_hint

    def test_submit_wait_and_status_bring_the_result(self, agent: Run, crew: Crew) -> None:
        async def does(agent: Agent) -> Any:
            job = await agent.call("submit", kind="work", payload={"n": 2})
            pending = await agent.call("wait", job=job["id"], timeout_s=0.3)
            held = await asyncio.to_thread(begun, crew)
            path = f"jobs/{job['id']}/heartbeat"
            await asyncio.to_thread(crew.post, path, lease=held["lease"], progress=0.5, detail="Half")
            waiting = asyncio.create_task(agent.call("wait", job=job["id"], timeout_s=60))
            await asyncio.wait_for(agent.reported.wait(), 30)
            await asyncio.to_thread(lambda: finish(crew, held, outcome="success", result=[4]))
            return job, pending, await waiting, await agent.call("status", job=job["id"]), agent.progress

        job, pending, ended, state, progress = agent(does)
        assert (job["status"], pending["status"]) == ("pending", "pending")
        assert (ended["status"], ended["result"], ended["worker"]) == ("success", [4], "w")
        assert state == ended
        assert progress[0] == (0.5, "Half")

    def test_cancel_and_list(self, agent: Run) -> None:
        async def does(agent: Agent) -> Any:
            jobs = [await agent.call("submit", kind="work") for _ in range(3)]
            canceled = await agent.call("cancel", job=jobs[0]["id"])
            waiting = await agent.call("list", status="pending", kind="work", count=1)
            return jobs, canceled, waiting

        jobs, canceled, waiting = agent(does)
        assert canceled == {"verdict": "canceled_before_start", "status": "canceled"}
        assert [job["id"] for job in waiting["jobs"]] == [jobs[-1]["id"]]
        assert status(jobs[0]["id"]) == "canceled"

    def test_submit_names_the_machines_that_may_have_it(self, agent: Run) -> None:
        async def does(agent: Agent) -> Any:
            wants = {"requires": {"vram": ">=16"}, "prefers": {"region": ["home", "lab"]}}
            return await agent.call("submit", kind="work", **wants), await agent.call(
                "submit", kind="work", requires={"vram": ">=much"}
            )

        job, refused = agent(does)
        assert (job["requires"], job["prefers"]) == ({"vram": ">=16"}, {"region": "home|lab"})
        assert "invalid: requires: vram>= needs a number" in refused

    def test_say_in_a_sentence_why_they_do_not_do_it(self, agent: Run) -> None:
        async def does(agent: Agent) -> Any:
            return [
                await agent.call("submit", kind="nonsense"),
                await agent.call("status", job=123456789),
                await agent.call("wait", job=1, timeout_s=-1),
            ]

        unknown, missing, negative = agent(does)
        assert "unknown_kind: No kind of job is called 'nonsense'" in unknown
        assert "not_found: " in missing
        assert "timeout_s" in negative


def test_without_a_token_it_says_so() -> None:
    environment = {"PATH": os.environ["PATH"], "JOBFARM_URL": "http://127.0.0.1:9"}
    ran = subprocess.run(COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert "Whose jobs?" in ran.stderr


def test_say_within_seconds_that_the_farm_is_away() -> None:
    """A host gives up on a tool after a minute: what it says later nobody reads."""

    async def does(agent: Agent) -> list[Any]:
        async with asyncio.timeout(WAIT_S):
            return [await agent.call("status", job=1), await agent.call("wait", job=1)]

    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    answers = asyncio.run(_with_agent(f"http://127.0.0.1:{port}", "jft_x", does))
    assert ["unreachable" in answer for answer in answers] == [True, True]
