import gc
import importlib.util
import os
import signal
import socket
from argparse import ArgumentParser
from collections.abc import Iterable
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from accounts import operations as accounts
from core import commands
from examples import config as examples
from jobfarm import administration, demonstration, processes
from jobfarm.processes import Child, Rights
from jobs import operations as jobs
from observing import numbers
from postgres import descriptors, embedded, reachability
from postgres.embedded.places import Lock
from postgres.errors import PostgresError

Address = tuple[str, int]
DEMONSTRATOR = "demonstrator"
LINK_MIN = 15  # good for: it stands in the terminal's scrollback
PAINTS_WITH = ("numpy", "PIL")
NO_PAINTER = "No worker paints pictures here: for one that does, pip install numpy pillow."
CLUSTER_ENDS_S = 10.0  # beyond the grace for its actions, until its end is written and its processes are gone


class Command(BaseCommand):
    """Migrate, make an administrator, and keep all that a farm needs running."""

    help = (
        "Start the whole farm: web, janitor, a cluster for mutations, one for actions and, with --with-worker, one "
        "worker for the kinds chat and image, calls of /v1, and the examples."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=settings.PORT)
        worker_help = (
            "start a worker too (a demonstrator, unless a server is configured), and turn SCHEDULING_GUARDS and "
            "JOBFARM_PUBLIC_NUMBERS on, unless the environment says otherwise"
        )
        web_help = "processes that serve the port, of a core each; WEB_PROCESSES, else the cores but one, at most 4"
        parser.add_argument("--web", type=int, default=settings.WEB_PROCESSES, metavar="N", help=web_help)
        parser.add_argument("--with-worker", action="store_true", help=worker_help)
        metrics_help = (
            "show the janitor's numbers at this port, those of the clusters at the next two, and of the web processes "
            "at those after"
        )
        parser.add_argument("--metrics", type=numbers.address, metavar="[HOST:]PORT", help=metrics_help)

    def handle(
        self, *, host: str, port: int, web: int, with_worker: bool, metrics: Address | None = None, **_: Any
    ) -> None:
        if web < 1:
            raise CommandError("--web takes a number from 1 on.")
        if with_worker:
            _set_for_trying_out()
        descriptors.allow_many()
        lock, listener = self._alone_at(host, port)
        url = processes.url_at(host, listener.getsockname()[1])
        try:
            with processes.listening_at(url):
                self._serve(listener, url, web, with_worker, metrics)
        finally:
            listener.close()
            embedded.release()
            lock.release()

    def _serve(self, listener: socket.socket, url: str, web: int, with_worker: bool, metrics: Address | None) -> None:
        self._prepare()
        lowered = processes.rights_of_servants()
        children = [_web(listener, lowered, number if web > 1 else 0, metrics) for number in range(1, web + 1)]
        janitor = partial(_without, listener, "janitor", *_shown(metrics, 0))
        children += [Child(name="janitor", run=janitor, stop_order=3), *_clusters(listener, metrics)]
        children += [_worker(url, lowered)] if with_worker else []
        self._welcome(url, [lowered.complaint, NO_PAINTER if with_worker and "image" not in _demonstrated() else ""])
        gc.collect()
        processes.Supervisor(children, folder=settings.JOBFARM_DATA, report=self._print).run()

    def _alone_at(self, host: str, port: int) -> tuple[Lock, socket.socket]:
        """The folder before the address: a farm that was killed may have left processes that hold it."""
        try:
            lock = processes.alone(settings.JOBFARM_DATA)
            processes.end_leftovers(settings.JOBFARM_DATA)
            return lock, processes.bind(host, port)
        except (processes.AnotherFarm, processes.AddressInUse, PostgresError, OSError) as error:
            raise CommandError(str(error)) from None

    def _prepare(self) -> None:
        try:
            if later := reachability.later_version():
                self._print(later)
            else:
                call_command("migrate", interactive=False, verbosity=0)
            administration.grant(reset=False)
        except (OperationalError, PostgresError) as error:
            raise CommandError(reachability.explain_unreachable(error) or str(error)) from None

    def _welcome(self, url: str, complaints: Iterable[str]) -> None:
        administrator, is_new = accounts.ensure_administrator()
        if is_new:
            for example in examples.installed():
                example.set_up(administrator)
        way_in = self._way_in(administrator, url)
        lines = [f"\njobfarm is starting at {url}", *complaints, way_in, "Ctrl-C stops all of it.\n"]
        self._print("\n".join(filter(None, lines)))

    def _way_in(self, administrator: User, url: str) -> str:
        """A link for who sits at the terminal. What is no terminal is kept (a journal, a file, a collector of logs),
        and read by others: there the command that makes a link is named."""
        name = administrator.get_username()
        if not self.stdout.isatty():
            command = f"{commands.MANAGE} login_link {name} --url {url}"
            return f"This is not a terminal. For a link that logs {name} in: {command}"
        link = accounts.one_time_link(administrator, minutes=LINK_MIN)
        return f"Log in as {name}, once, within {LINK_MIN} minutes: {url}{link}"

    def _print(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


# What runs Django is forked from this process, which has it loaded (docs/clusters.md), and was checked when it started.
# They are stopped in order: the worker first, so that what it holds is given back while the server still answers;
# the server last, so that one can watch the others finish.


def _set_for_trying_out() -> None:
    # For trying out and developing: mistakes are to be found there, and the front page has something to show. In the
    # environment too, for processes that begin anew.
    if not os.environ.get("SCHEDULING_GUARDS"):
        os.environ["SCHEDULING_GUARDS"], settings.SCHEDULING_GUARDS = "1", True
    if not os.environ.get("JOBFARM_PUBLIC_NUMBERS"):
        os.environ["JOBFARM_PUBLIC_NUMBERS"], settings.JOBFARM["PUBLIC_NUMBERS"] = "1", True


def _web(listener: socket.socket, lowered: Rights, number: int, metrics: Address | None) -> Child:
    """Forked as the others are, unless it has an account of its own: then its settings are others. `number`: of those
    that share the listener, 0 for one alone. Whichever is free takes the next connection (docs/adr/0137)."""
    words = ["web", "--fd", str(listener.fileno()), *_shown(metrics, 2 + max(number, 1))]
    return Child(
        name=f"web {number}" if number else "web", argv=commands.argv(*words),
        run=None if lowered.credentials else lambda: call_command(*words, skip_checks=False),
        inherited=[listener.fileno()], stop_order=4, environment=dict(lowered.environment),
        credentials=lowered.credentials,
    )  # fmt: skip


def _shown(metrics: Address | None, further: int) -> list[str]:
    """Where a part shows its numbers: so many ports further than the first."""
    return ["--metrics", f"{metrics[0]}:{metrics[1] + further}"] if metrics else []


def _clusters(listener: socket.socket, metrics: Address | None) -> list[Child]:
    """Each keeps and watches the processes of its cluster; the farm watches those who keep."""
    return [
        Child(
            name=f"the cluster for {kind}",
            run=partial(_without, listener, "cluster", f"--{kind}", *_shown(metrics, further)),
            grace_s=settings.SCHEDULING["GRACE_S"] + CLUSTER_ENDS_S,
            hurry=signal.SIGQUIT,
            stop_order=2,
        )
        for further, kind in enumerate(("mutations", "actions"), start=1)
    ]


def _worker(url: str, lowered: Rights) -> Child:
    """The worker that comes along. Its key is new at each start and travels where no list of processes shows it."""
    kinds, more = _demonstrated(), [one for example in examples.installed() for one in example.handlers]
    queues = [handler.partition("=")[0] for handler in kinds + more]
    key = jobs.ensure_worker(DEMONSTRATOR, queues=queues + _demonstration_queue(kinds))
    argv = [*commands.module("jobfarm_worker"), "--url", url, "--concurrency", "2", "--grace", "2"]
    argv += [word for handler in kinds + more for word in ("--handler", handler)]
    environment = {"JOBFARM_KEY": key} | commands.importable()
    return Child(name="worker", argv=argv, environment=environment, stop_order=1, credentials=lowered.credentials)


def _demonstrated() -> list[str]:
    """What the worker that comes along does: paint too, where the packages for it are installed."""
    named = ["chat", "openai"]
    return ["image", *named] if all(map(importlib.util.find_spec, PAINTS_WITH)) else named


def _demonstration_queue(kinds: list[str]) -> list[str]:
    """The queue of the front page's picture, where there is one and it costs nobody money."""
    has_server = os.environ.get("JOBFARM_IMAGE_URL") or os.environ.get("OPENAI_BASE_URL")
    is_wanted = demonstration.is_shown() and "image" in kinds and not has_server
    return [demonstration.QUEUE] if is_wanted else []


def _without(listener: socket.socket, *words: str) -> None:
    """A command, in a process that was forked from the farm and has nothing to do with its socket."""
    listener.close()
    call_command(*words, skip_checks=True)
