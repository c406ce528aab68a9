"""`manage.py farm_worker`: run this site's tasks on this machine."""

import logging
import os
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from jobfarm_client import wire
from jobfarm_client.django import outbox, running
from jobfarm_client.django.backend import FarmBackend
from jobfarm_client.django.interface import task_backends
from jobfarm_client.errors import FarmError
from jobfarm_worker import Worker, written_labels

SEND_EVERY_S = 10.0


class Command(BaseCommand):
    """Takes this site's tasks from the farm, and sends those that wait in the outbox."""

    help = "Run the tasks that this site enqueued, taken from its farm, until a signal; send what waits in the outbox."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--backend", default="default", help="alias of the backend in TASKS (default)")
        parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="tasks at a time (1)")
        parser.add_argument("--queues", metavar="A,B", help="take tasks of these queues of the farm only")
        parser.add_argument(
            "--label",
            action="append",
            default=[],
            metavar="LABEL=VALUE",
            help="what tasks may require of this machine, as vram=24 or region=home; may be repeated",
        )
        parser.add_argument("--key-file", metavar="FILE", help="file with the worker's key, alone (or JOBFARM_KEY)")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run until a signal; a CommandError with a sentence when the farm refuses this worker."""
        backend = _backend(options["backend"])
        logging.getLogger("jobfarm_worker").setLevel(logging.INFO)
        stop = threading.Event()
        sending = threading.Thread(target=_send, args=[backend, stop], daemon=True)
        try:
            worker = _worker(backend, options)
            sending.start()
            worker.run_forever()
        except (FarmError, OSError) as error:
            raise CommandError(str(error)) from error
        finally:
            stop.set()


def _send(backend: FarmBackend, stop: threading.Event) -> None:
    outbox.keep_sending(
        backend.alias, backend.farm_options, stop=stop, every_s=SEND_EVERY_S, cleanup=connections.close_all
    )


def _backend(alias: str) -> FarmBackend:
    backend = task_backends[alias]
    if not isinstance(backend, FarmBackend):
        raise CommandError(f"TASKS[{alias!r}] is not a FarmBackend.")
    return backend


def _worker(backend: FarmBackend, options: dict[str, Any]) -> Worker:
    farm = backend.farm_options
    queues = [name.strip() for name in (options["queues"] or "").split(",") if name.strip()]
    file, url = options["key_file"], farm.url or os.environ.get("JOBFARM_URL", "")
    worker = Worker(
        url,
        wire.secret_in(file, name="key") if file else farm.worker_key or os.environ.get("JOBFARM_KEY", ""),
        queues=queues or None,
        concurrency=options["concurrency"],
        labels=written_labels(options["label"]),
    )
    worker.handler(farm.kind)(running.handler(backend.alias))
    return worker
