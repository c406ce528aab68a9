"""Two web nodes behind nginx are restarted by the commands of docs/first-day.md while clients ask: none notices."""

import os
import re
import subprocess
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx
import pytest

from postgres import embedded
from tests.farm import until
from tests.operations import postgresqls, proxies, systemd
from tests.operations.wheels import ROOT
from tests.ports import free_port

pytestmark = pytest.mark.long
WITHIN_S: Final = 120.0
PARTS: Final = ("jobfarm-janitor", "jobfarm-mutations@1", "jobfarm-actions@1")
# Who keeps a connection and posts: what a proxy may not say twice. Who reads: what it may. Who comes anew each time.
CLIENTS: Final = ("posts", "posts", "posts", "reads", "comes anew")
PAUSE_S: Final = 0.03  # as fast as they can, two cores would be busy with them


class Client:
    """Asks until the block ends; counts answers by their status, and the jobs it was told of."""

    def __init__(self, url: str, token: str, *, does: str) -> None:
        self._url, self._token, self._does = url, token, does
        self.answers: Counter[str] = Counter()
        self.acknowledged: list[int] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Client":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        api = self._connected()
        while not self._ended.wait(PAUSE_S):
            if self._does == "comes anew":
                api.close()
                api = self._connected()
            try:
                self._ask(api)
            except httpx.TransportError as error:
                self.answers[repr(error)] += 1
        api.close()

    def _connected(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self._token}"}
        return httpx.Client(base_url=f"{self._url}/api/v1/", headers=headers, verify=proxies.trusting(), timeout=30)

    def _ask(self, api: httpx.Client) -> None:
        if self._does == "reads":
            self.answers[str(api.get("jobs?limit=1").status_code)] += 1
            return
        answer = api.post("jobs", json={"kind": "work", "payload": {"of": str(uuid.uuid4())}})
        self.answers[str(answer.status_code)] += 1
        if answer.is_success:
            self.acknowledged.append(answer.json()["id"])


def commands(*ports: int) -> str:
    """The lines that restart, in "The next version" of docs/first-day.md, for nodes at these ports."""
    section = (ROOT / "docs" / "first-day.md").read_text().partition("## 10. The next version")[2]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert block
    lines = block[1].splitlines()
    [first] = [at for at, line in enumerate(lines) if "migrate" in line]
    text = "\n".join(lines[first + 1 :])
    assert "8000" in text
    return text.replace("8000", str(ports[0])).replace("8001", str(ports[1]))


class Site:
    """A database, a farm's parts as units, and nginx before its two nodes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.ports = free_port(), free_port()
        database = postgresqls.url(stack.enter_context(postgresqls.primary(embedded.bin_folder())))
        self.environment = systemd.environment(
            DATABASE_URL=database, JOBFARM_DATA=str(folder / "data"), SECRET_KEY=uuid.uuid4().hex * 2,
            JOBFARM_METRICS_TOKEN=uuid.uuid4().hex, DJANGO_SUPERUSER_PASSWORD=uuid.uuid4().hex,
            FORWARDED_ALLOW_IPS="127.0.0.1", JOBFARM_SUBMIT_BURST="100000",
        )  # fmt: skip
        self.manage("migrate", "--no-input")
        self.manage("createsuperuser", "--noinput", "--username", "admin", "--email", "admin@farm.example")
        self.manage("create_kind", "work")
        self.token = self.manage("create_token", "admin").strip()
        self.units = stack.enter_context(systemd.Manager(folder, self.environment))
        self.nodes = [f"jobfarm-web@{port}" for port in self.ports]
        self.units.start(*self.nodes, *PARTS)
        (folder / "nginx").mkdir()
        self.url = stack.enter_context(proxies.nginx(folder / "nginx", nodes=self.ports)).url

    def manage(self, *words: str) -> str:
        """What `manage.py` prints on this database."""
        command = [systemd.PYTHON, "manage.py", *words]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, script: str) -> None:
        """Type these commands."""
        path = f"{self.units.path}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-ec", script], env={**self.environment, "PATH": path}, capture_output=True, text=True,
            timeout=WITHIN_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack)


def _until_each_was_answered(clients: list[Client]) -> None:
    """Ten times more than by now."""
    enough = [client.answers.total() + 10 for client in clients]
    until(lambda: all(client.answers.total() >= more for client, more in zip(clients, enough, strict=True)))


def test_nobody_notices_that_two_nodes_are_restarted(site: Site) -> None:
    before = {name: unit.pid for name, unit in site.units.units.items()}
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(site.url, site.token, does=does)) for does in CLIENTS]
        _until_each_was_answered(clients)  # and has its connection
        site.run(commands(*site.ports))
        _until_each_was_answered(clients)
    answers = sum((client.answers for client in clients), Counter[str]())
    assert set(answers) == {"200", "201"}, answers
    acknowledged = [job for client in clients for job in client.acknowledged]
    with httpx.Client(
        base_url=f"{site.url}/api/v1/", headers={"Authorization": f"Bearer {site.token}"}, verify=proxies.trusting()
    ) as api:
        assert api.get(f"jobs/{acknowledged[-1]}").json()["status"] == "pending"
    assert answers["201"] == len(acknowledged) == len(set(acknowledged)) > 100
    after = {name: unit.pid for name, unit in site.units.units.items()}
    assert [name for name in before if before[name] == after[name]] == [], "each was another process before"
