"""The process that has imported what others would, and forks them: `python -m tests.forkserver.server DESCRIPTOR`."""

import fcntl
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

# What the farm imports of others, and of itself, that reads no settings as it is imported: nearly half of its start.
LIBRARIES: Final = (
    "asyncio", "cronsim", "cryptography.fernet", "django.contrib.messages",
    "django.core.mail", "django.core.management", "django.core.servers.basehttp", "django.core.validators",
    "django.db.backends.postgresql.psycopg_any", "django.db.models", "django.forms", "django.http",
    "django.middleware.csrf", "django.template", "django.utils.autoreload", "django.utils.translation.trans_real",
    "django.views.debug", "django.views.generic", "fido2.server", "jinja2", "markdown_it", "nh3", "opentelemetry.trace",
    "prometheus_client", "psutil", "psycopg", "psycopg_pool", "pydantic.types",
    "pydantic.deprecated.decorator", "pythonjsonlogger.json", "requests", "unittest", "uvicorn.lifespan.on",
    "uvicorn.main", "uvicorn.protocols.http.auto", "uvicorn.protocols.websockets.auto", "webhooks.domain.rules",
)  # fmt: skip
_MOST_DESCRIPTORS: Final = 32

Request = dict[str, Any]


def main() -> None:
    """Import libraries; fork whatever is asked for until nobody asks any more. Each process that is forked leaves the
    loop and becomes what was asked for, so that it ends as any Python does."""
    gc.disable()
    for name in LIBRARIES:
        with suppress(ModuleNotFoundError):  # an environment without the extra that brings it
            importlib.import_module(name)
    request: Request | None = {"environment": {}, "served": int(sys.argv[1])}
    while request and "argv" not in request:
        request = _serve(socket.socket(fileno=request["served"]))
    if request:
        _begin(request)


def _serve(connection: socket.socket) -> Request | None:
    """What this process is to be, once it is a forked one; None if nobody asks any more."""
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait for others
    while True:
        _, descriptors, _, _ = socket.recv_fds(connection, 1, _MOST_DESCRIPTORS)
        if not descriptors:
            return None
        if os.fork() == 0:
            connection.close()
            return _forked(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _forked(descriptors: list[int]) -> Request:
    with os.fdopen(descriptors[0], "rb") as file:
        file.seek(0)
        request: Request = json.load(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    if "argv" in request:
        _wait_for_another(descriptors[1])
        _place(descriptors[2:], request["numbers"])
        return request
    _load()
    return request | {"served": descriptors[1]}


def _load() -> None:
    """What each process of a farm loads, however it goes on, and what the first request of each makes of it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    import django
    from django.conf import settings
    from django.urls import reverse

    django.setup(set_prefix=False)
    for name in [settings.ROOT_URLCONF, "jobfarm.server"]:
        importlib.import_module(name)
    for path in settings.MIDDLEWARE:
        importlib.import_module(path.rpartition(".")[0])
    reverse("health_live")  # the first one reads all addresses, in 50 ms of a processor
    gc.collect()


def _wait_for_another(end: int) -> None:
    """Fork once more; this process says how the other one ends, and the other one goes on."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(end)
        return
    with suppress(BrokenPipeError):  # nobody wants to know any more
        os.write(end, f"{pid}\n".encode())
        os.write(end, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())
    os._exit(0)


def _place(descriptors: list[int], numbers: list[int]) -> None:
    """Put each at its number; first all of them beyond all numbers, out of the way of each other."""
    apart = [_moved(descriptor, beyond=max(numbers)) for descriptor in descriptors]
    for descriptor, number in zip(apart, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _moved(descriptor: int, *, beyond: int) -> int:
    moved: int = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, beyond + 1)
    os.close(descriptor)
    return moved


def _begin(request: Request) -> None:
    """Be the program that was asked for, as `python ARGV` would."""
    os.setsid()
    os.chdir(request["cwd"])
    if "django.conf" in sys.modules:
        _correct(os.environ.get("JOBFARM_URL"))
    gc.enable()
    sys.path[1:1] = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    argv = request["argv"]
    if argv[0] == "-W":
        assert argv[1] == "error::RuntimeWarning", argv
        warnings.simplefilter("error", RuntimeWarning)
        argv = argv[2:]
    _run(argv)


def _run(argv: list[str]) -> None:
    what, *rest = argv
    if what == "-m":
        sys.argv, sys.path[0] = rest, str(Path.cwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif what == "-c":
        sys.argv, sys.path[0] = [what, *rest[1:]], ""
        code = compile(rest[0], "<string>", "exec")
        exec(code, {"__name__": "__main__", "__builtins__": __builtins__})
    else:
        sys.argv, sys.path[0] = argv, str(Path(what).resolve().parent)
        runpy.run_path(what, run_name="__main__")


def _correct(own_url: str | None) -> None:
    from django.conf import settings

    if settings.configured and own_url:
        settings.JOBFARM_URL = settings.OUTBOX["SOURCE"] = own_url


if __name__ == "__main__":
    main()
