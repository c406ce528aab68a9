"""A terminal for tests that do what the documents print."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from django.db import connection

from tests.documented import ROOT


class Shell:
    """A terminal in which `jobfarm` and `python` are what the pages mean; in a `checkout` manage.py and .venv too."""

    def __init__(self, folder: Path, *, checkout: bool = False, **environment: str) -> None:
        self._folder = folder
        programs = folder / "bin"
        programs.mkdir()
        for name, command in (("jobfarm", [sys.executable, str(ROOT / "manage.py")]), ("python", [sys.executable])):
            (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            (programs / name).chmod(0o755)
        if checkout:
            (folder / "manage.py").symlink_to(ROOT / "manage.py")
            (folder / ".venv").symlink_to(sys.prefix)
        self.environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{programs}:{os.environ['PATH']}",
            "JOBFARM_TEST_DATABASE": str(connection.settings_dict["NAME"]), **environment,
        }  # fmt: skip
        self.environment.pop("DJANGO_SETTINGS_MODULE", None)

    def run(self, *command: str, typed: str = "") -> str:
        """What a command prints; an AssertionError with its complaints if it fails."""
        with subprocess.Popen(
            command, cwd=self._folder, env=self.environment, text=True, start_new_session=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                output, errors = process.communicate(typed, timeout=120)
            finally:  # what it began in the background, where it did not come to end that itself
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
        assert process.returncode == 0, errors
        return output

    def follow(self, commands: str, places: Mapping[str, str]) -> str:
        """What these commands of a page print, one after another; `places` are put where the page has these words."""
        for word, value in places.items():
            assert word in commands, f"{word} is not in {commands}"
            commands = commands.replace(word, value)
        return self.run("bash", "-eu", "-o", "pipefail", "-c", commands)

    @contextlib.contextmanager
    def running(self, command: str) -> Iterator[None]:
        """Have a command run that ends with SIGTERM, and then with 0."""
        with subprocess.Popen(["bash", "-c", f"exec env {command}"], cwd=self._folder, env=self.environment) as process:
            try:
                yield
            finally:
                process.terminate()
        assert process.returncode == 0
