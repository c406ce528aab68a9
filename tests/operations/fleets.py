"""A small farm in processes, on a database that may go away."""

import json
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import httpx

from tests import forkserver
from tests.farm import until
from tests.operations import migrated, postgresqls
from tests.ports import free_port

MAKE = """
import json
from accounts import operations as accounts
from jobs import operations
from tests import farm
ada = farm.user()
operations.create_kind(operations.Kind(name="work"))
print(json.dumps([accounts.create_token(ada, name="tests")[1], operations.create_worker("w", queues=["work"])[1]]))
"""


class Fleet:
    """A farm on both servers, whichever takes writes: web, janitor, clusters and a worker."""

    def __init__(self, url: str, data: Path, stack: ExitStack) -> None:
        migrated.migrate(url, data)
        made = postgresqls.manage(url, data, "shell", "--no-imports", "-c", MAKE)
        assert made.returncode == 0, made.stderr
        token, key = json.loads(made.stdout)
        self._data, self._stack = data, stack
        self._environment = os.environ | {"DATABASE_URL": url, "JOBFARM_DATA": str(data), "SECRET_KEY": "of-a-test" * 8}
        self.address = f"http://127.0.0.1:{free_port()}"
        self.client = stack.enter_context(
            httpx.Client(base_url=self.address, headers={"Authorization": f"Bearer {token}"}, timeout=30)
        )
        self._start("web", "manage.py", "web", "--port", self.address.rpartition(":")[2])
        self._start("janitor", "manage.py", "janitor")
        self._start("mutations", "manage.py", "cluster", "--mutations")
        until(self._is_up, within_s=60, what="the web server")
        about = {"JOBFARM_KEY": key, "JOBFARM_URL": self.address}
        self._start("worker", "-m", "jobfarm_worker", "--handler", "work=builtins:bool", **about)

    def submit(self, key: str) -> int:
        """The id of a job that the farm acknowledged, asked for again until it does."""
        end = time.monotonic() + 60
        while True:
            assert time.monotonic() < end, "the farm acknowledges nothing for a minute"
            try:
                answer = self.client.post(
                    "/api/v1/jobs", json={"kind": "work", "payload": key}, headers={"Idempotency-Key": key}
                )
            except httpx.HTTPError:
                continue
            if answer.status_code in {200, 201}:
                return int(answer.json()["id"])
            assert answer.status_code >= 500, answer.text
            time.sleep(0.1)

    def logs(self) -> str:
        """Return what all parts have logged."""
        return "\n".join(f"== {log.name}\n{log.read_text()}" for log in sorted(self._data.glob("*.log")))

    def _is_up(self) -> bool:
        try:
            return self.client.get("/health/ready").status_code == 200
        except httpx.HTTPError:
            return False

    def _start(self, name: str, *command: str, **variables: str) -> None:
        log = self._stack.enter_context((self._data / f"{name}.log").open("wb"))
        variables = self._environment | variables
        process = forkserver.Process(command, env=variables, stdout=log, stderr=log, loaded="manage.py" in command)
        self._stack.callback(process.wait, 60)
        self._stack.callback(process.send_signal, signal.SIGTERM)
