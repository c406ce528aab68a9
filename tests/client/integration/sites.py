"""A Django site in processes of its own, which knows of the farm its address and two keys. JOBFARM_SITE_PYTHON names
another Python for it, with another Django; the farm stays as it is. Without it they are forked (`tests.forkserver`): a
start costs a second of a processor, and the sixteen tests have fifty."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests import forkserver
from tests.forkserver import ROOT

PYTHON: Final = os.environ.get("JOBFARM_SITE_PYTHON", sys.executable)
IS_FORKED: Final = sys.executable == PYTHON
FOLDER: Final = ROOT / "tests" / "client" / "site"
_PRELUDE: Final = """
import json, sys
import django
django.setup()
from django.db import transaction
from letters import tasks
from jobfarm_client.django.interface import task_backends
def of(result):
    result.refresh()
    return [result.status, result._return_value, [error.exception_class_path for error in result.errors]]
"""


class Site:
    """Its processes share a database, in this folder."""

    def __init__(self, folder: Path, *, farm: str, token: str, key: str) -> None:
        self._environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "error::RuntimeWarning",
            "DJANGO_SETTINGS_MODULE": "site_settings",
            "SITE_DATABASE": str(folder / "site.sqlite"),
            "SITE_FARM": farm,
            "SITE_TOKEN": token,
            "SITE_KEY": key,
        }

    def manage(self, *words: str, farm: str = "") -> tuple[int, str]:
        """Run a command of the site: its status, and all that it prints."""
        ran = self._run(["manage.py", *words], farm=farm)
        return ran.returncode, ran.stdout + ran.stderr

    def run(self, code: str, *, farm: str = "") -> Any:
        """What `code` leaves in `answer`, in a process of the site. `farm`: another address."""
        ran = self._run(["-c", self.script(code)], farm=farm)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout.splitlines()[-1])

    def script(self, code: str) -> str:
        """A program of the site that prints what `code` leaves in `answer`."""
        return f"{_PRELUDE}\n{code}\nprint(json.dumps(answer))"

    @contextmanager
    def working(self, *options: str, may_die: bool = False) -> Iterator["subprocess.Popen[str]"]:
        """`farm_worker` of this site, until the block ends; it `may_die` before."""
        process = subprocess.Popen(
            [PYTHON, "manage.py", "farm_worker", *options], cwd=FOLDER, env=self._environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
        assert may_die or process.returncode == 0

    def _run(self, command: list[str], *, farm: str) -> "subprocess.CompletedProcess[str]":
        environment = self._environment | ({"SITE_FARM": farm} if farm else {})
        if IS_FORKED:
            strict = ("-W", "error::RuntimeWarning")
            return forkserver.run([*strict, *command], cwd=FOLDER, env=environment, timeout=90)
        return subprocess.run(
            [PYTHON, *command], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=90, check=False
        )
