"""docs/client.md, run as printed: the clients, the commands, a site, and the tools of an agent."""

import asyncio
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from jobs import operations
from jobs.models import Job
from tests import documented
from tests.forkserver import ROOT
from tests.servers import Server
from tests.shells import Shell

pytestmark = pytest.mark.landing

BLOCKING, AWAITED, FOLLOWING, SETTINGS, TASKS = documented.blocks("client.md", "python")
EXPORT, COMMANDS, OF_THE_FARM, OF_THE_SITE = documented.blocks("client.md", "sh")
[OF_AN_AGENT] = documented.blocks("client.md", "json")


@pytest.fixture
def shell(server: Server, token: str, tmp_path: Path) -> Shell:
    exported = EXPORT.replace("https://farm.example", server.url).replace("jft_...", token)
    words = shlex.split(exported)
    assert words.pop(0) == "export"
    return Shell(tmp_path, checkout=False, **dict(word.split("=", 1) for word in words))


@pytest.fixture
def demonstrator(shell: Shell) -> Iterator[None]:
    """A worker of the kind chat."""
    _, key = operations.create_worker("demo", queues=["chat"])
    process = subprocess.Popen(
        [sys.executable, "-m", "jobfarm_worker", "--handler", "chat-demo", "--concurrency", "4"],
        cwd=ROOT, env={**shell.environment, "JOBFARM_KEY": key}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    yield
    process.terminate()
    process.wait(timeout=30)


@pytest.mark.usefixtures("demonstrator")
class TestPython:
    def test_of_the_client_that_blocks(self, shell: Shell) -> None:
        output = shell.run("python", "-", typed=BLOCKING)
        assert "\nsuccess " in output
        assert output.splitlines()[-1] == f"job {Job.objects.order_by('-pk')[0].pk} has not ended"
        assert Job.objects.count() == 6

    def test_of_the_client_that_is_awaited(self, shell: Shell) -> None:
        output = shell.run("python", "-", typed=AWAITED)
        assert output == "".join(f"{pk} success\n" for pk in Job.objects.order_by("pk").values_list("pk", flat=True))

    def test_of_all_that_match(self, shell: Shell) -> None:
        assert shell.run("python", "-", typed=FOLLOWING) == "all have ended\n"
        assert {job.status for job in Job.objects.whole()} == {"success"}


@pytest.mark.usefixtures("demonstrator")
def test_the_commands(shell: Shell) -> None:
    *_, last_event, canceled, ended, newest, _ = shell.run("sh", "-e", "-c", COMMANDS).splitlines()
    assert json.loads(last_event) == {"event": "end", "status": "success"}
    assert canceled.endswith(" too_late (success)")
    assert ended == "it had ended"
    assert newest.startswith(f"job {Job.objects.order_by('-pk')[0].pk} success")


def test_the_site(shell: Shell, ada: User, tmp_path: Path) -> None:
    shell.run("python", "-m", "django", "startproject", "site_of_ada", ".")
    with (tmp_path / "site_of_ada" / "settings.py").open("a") as file:
        file.write(f"import os\n{SETTINGS}\nINSTALLED_APPS += ['letters']\n")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "__init__.py").touch()
    (tmp_path / "letters" / "tasks.py").write_text(TASKS)
    (tmp_path / "farm").mkdir()
    on_the_farm = Shell(tmp_path / "farm", checkout=True)
    shell.environment["JOBFARM_KEY"] = on_the_farm.run("sh", "-e", "-c", OF_THE_FARM).splitlines()[-1]
    assert shell.run("sh", "-e", "-c", OF_THE_SITE).splitlines()[-1] == "Dear Ada"
    assert Job.objects.get().owner == ada


def test_the_tools_of_an_agent(shell: Shell) -> None:
    [[name, host]] = json.loads(OF_AN_AGENT)["mcpServers"].items()
    assert set(host["env"]) == {"JOBFARM_URL", "JOBFARM_TOKEN"}
    names = ("PATH", "PYTHONPATH", *host["env"])
    environment = {variable: shell.environment[variable] for variable in names}
    parameters = StdioServerParameters(command=host["command"], args=host["args"], env=environment)

    async def tools() -> list[Any]:
        async with Client(parameters) as client:
            return list((await client.list_tools()).tools)

    assert (name, len(asyncio.run(tools()))) == ("jobfarm", 5)
