"""`manage.py farm_worker`: run this site's tasks on this machine."""

import logging
import os
import socket
import threading
import traceback
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections
from django.utils import timezone

from jobfarm_client import wire
from jobfarm_client.django import interface, outbox
from jobfarm_client.django.backend import FarmBackend, loaded, made, report
from jobfarm_client.errors import FarmError
from jobfarm_worker import Failed, Job, Worker, written_labels

SEND_EVERY_S = 10.0


class Command(BaseCommand):
    """Takes this site's tasks from the farm, and sends those that wait in the outbox."""

    help = "Run the tasks that this site enqueued, taken from its farm, until a signal; send what waits in the outbox."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--backend", default="default", help="alias of the backend in TASKS (default)")
        parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="tasks at a time (1)")
        parser.add_argument("--queues", metavar="A,B", help="take tasks of these queues of the farm only")
        label = "what tasks may require of this machine, as vram=24 or region=home; may be repeated"
        parser.add_argument("--label", action="append", default=[], metavar="LABEL=VALUE", help=label)
        parser.add_argument("--key-file", metavar="FILE", help="file with the worker's key, alone (or JOBFARM_KEY)")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run until a signal; a CommandError with a sentence when the farm refuses this worker."""
        backend = interface.task_backends[options["backend"]]
        if not isinstance(backend, FarmBackend):
            raise CommandError(f"TASKS[{options['backend']!r}] is not a FarmBackend.")
        logging.getLogger("jobfarm_worker").setLevel(logging.INFO)
        stop = threading.Event()
        sending = threading.Thread(target=_keep_sending, args=[backend, stop], daemon=True)
        try:
            worker = _worker(backend, options)
            sending.start()
            worker.run_forever()
        except (FarmError, OSError) as error:
            raise CommandError(str(error)) from error
        finally:
            stop.set()


def _keep_sending(backend: FarmBackend, stop: threading.Event) -> None:
    """Send what waits in the outbox every so often, until `stop`."""
    while not stop.wait(SEND_EVERY_S):
        try:
            outbox.send_due(backend.alias, backend.farm_options)
        except Exception:
            outbox.log.exception("tasks that wait for the farm could not be sent")
        finally:
            connections.close_all()


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
    worker.handler(farm.kind)(handler(backend.alias))
    return worker


def handler(alias: str) -> Callable[[Job], Any]:
    """The function that runs the tasks of this backend, each in a thread of its own."""

    def run(job: Job) -> Any:
        try:
            return _run(job, alias)
        finally:
            connections.close_all()  # the thread ends, and its connections would stay open

    return run


def _run(job: Job, alias: str) -> Any:
    """Raises Failed with what the task raised; for good where the site has no such task, which another try is not
    going to find. What a receiver of a signal raises is Django's to log: the task has run, and is not to run again."""
    task, call = _task(job, alias), job.payload
    started = _result(job, task)
    interface.task_started.send_robust(FarmBackend, task_result=started)
    context = [interface.TaskContext(task_result=started)] if task.takes_context else []
    try:
        value = interface.normalize_json(task.call(*context, *call["args"], **call["kwargs"]))
    except Exception as error:
        if job.attempt >= (job.max_attempts or 1):
            interface.task_finished.send_robust(FarmBackend, task_result=_failed(started, error))
        raise Failed(report(error, traceback.format_exc())) from error
    result = replace(started, status=interface.TaskResultStatus.SUCCESSFUL, finished_at=timezone.now())
    object.__setattr__(result, "_return_value", value)
    interface.task_finished.send_robust(FarmBackend, task_result=result)
    return value


def _task(job: Job, alias: str) -> interface.AnyTask:
    try:
        return loaded(job.payload["task"]).using(backend=alias)
    except (interface.TaskResultDoesNotExist, KeyError, TypeError) as error:
        raise Failed(f"This is no task of this site: {error}", retryable=False) from error


def _result(job: Job, task: interface.AnyTask) -> interface.AnyResult:
    now = timezone.now()
    return made(
        task, job.payload, id=str(job.payload.get("id", job.id)), status=interface.TaskResultStatus.RUNNING,
        enqueued_at=None, started_at=now, last_attempted_at=now, finished_at=None, errors=[],
        worker_ids=[socket.gethostname()] * job.attempt,
    )  # fmt: skip


def _failed(started: interface.AnyResult, error: Exception) -> interface.AnyResult:
    path, _, formatted = report(error, traceback.format_exc()).partition("\n")
    errors = [interface.TaskError(exception_class_path=path, traceback=formatted)]
    return replace(started, status=interface.TaskResultStatus.FAILED, finished_at=timezone.now(), errors=errors)
