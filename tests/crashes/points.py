"""A process that kills itself after its nth step towards the database: a statement, the moment before a commit, the
moment after it.

One template has Django ready and forks for each point, so that a point costs a fork and not a start. It speaks in
lines of JSON: in comes what to do and after how many steps to die, out goes whether that was reached.
"""

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ACTIONS = "tests.crashes.actions"


class Template:
    """The process that forks, seen from the test."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def dies(self, function: str, *, after: int, **given: Any) -> bool:
        """Have a fork do `deed`, and kill itself after so many steps; False if it came to its end before that.

        An AssertionError if the deed raised.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"function": function, "after": after, "given": given}), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline() or '{"error": "the template ended"}')
        assert not answer.get("error"), answer["error"]
        return bool(answer["died"])


@contextlib.contextmanager
def template(database: str) -> Iterator[Template]:
    """One that runs, on this database, for the length of the block."""
    environment = os.environ | {"JOBFARM_TEST_DATABASE": database, "DJANGO_SETTINGS_MODULE": "jobfarm.settings"}
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Template(process)
        assert process.stdin is not None
        process.stdin.close()


def main() -> None:
    """Be the template: fork for each line. A fork lives too briefly to look for garbage, which would copy the pages
    that it shares."""
    import django

    gc.disable()
    django.setup()
    actions = import_module(ACTIONS)
    for line in sys.stdin:
        message = json.loads(line)
        print(
            json.dumps(_forked(getattr(actions, message["function"]), message["after"], message["given"])), flush=True
        )


def _forked(function: Callable[..., object], after: int, given: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _do_and_end(function, after, given, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        error = pipe.read()
    _, status = os.waitpid(child, 0)
    return {"died": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, "error": error}


def _do_and_end(function: Callable[..., object], after: int, given: dict[str, Any], writing: int) -> None:
    try:
        _die_after(after)
        function(**given)
    except BaseException:
        os.write(writing, traceback.format_exc().encode())
    finally:
        os._exit(0)


def _die_after(steps: int) -> None:
    """Count every statement, and both sides of every commit, of the connection that this process will open."""
    from django.db import connection

    ours: Any = connection  # what Django commits by is not in its stubs
    left = steps

    def step() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(execute: Callable[..., Any], *given: Any) -> Any:
        step()
        return execute(*given)

    commit = ours._commit

    def counted_commit() -> None:
        step()
        commit()
        step()

    connection.execute_wrappers.append(counted)
    ours._commit = counted_commit


if __name__ == "__main__":
    main()
