"""Tasks, and receivers of their signals, that die or fail where the harness says."""

from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from due_work_harness.process_histories import die_here, fault_fires

from scheduling.django_tasks import task, task_enqueued, task_finished, task_started


@task()
def send(name: str, effects: str) -> None:
    """Do something outside: a line in a file."""
    die_here("task body before effect")
    with Path(effects).open("a") as file:
        file.write(f"{name}\n")
    die_here("external call")


@task(mutation=True)
def record(name: str, effects: str) -> None:
    """Write a row."""
    del effects
    die_here("task body before effect")
    Group.objects.create(name=name)
    die_here("external call")


def _die_or_raise(point: str) -> Any:
    def receive(**_: Any) -> None:
        die_here(f"{point} receiver")
        if fault_fires(f"{point} receiver raises"):
            raise RuntimeError(f"the receiver of {point} fails")

    return receive


RECEIVERS = {
    signal: _die_or_raise(name)
    for signal, name in (
        (task_enqueued, "task_enqueued"),
        (task_started, "task_started"),
        (task_finished, "task_finished"),
    )
}
for each, receiver in RECEIVERS.items():
    each.connect(receiver)
