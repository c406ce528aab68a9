"""A task, and receivers of its signals, that die or fail where due-work-harness says."""

from importlib import import_module
from pathlib import Path
from typing import Any

import django
from due_work_harness.process_histories import die_here, fault_fires

_INTERFACE = "django_tasks" if django.VERSION < (6,) else "django.tasks"
task, signals = import_module(_INTERFACE).task, import_module(f"{_INTERFACE}.signals")


@task
def deliver(name: str, effects: str) -> None:
    """A line in a file."""
    die_here("task body before effect")
    with Path(effects).open("a") as file:
        file.write(f"{name}\n")
    die_here("external call")


def _die_or_raise(point: str) -> Any:
    def receive(**_: Any) -> None:
        die_here(f"{point} receiver")
        if fault_fires(f"{point} receiver raises"):
            raise RuntimeError(f"the receiver of {point} fails")

    return receive


RECEIVERS = {name: _die_or_raise(name) for name in ("task_enqueued", "task_started", "task_finished")}
for each, receiver in RECEIVERS.items():
    getattr(signals, each).connect(receiver)
