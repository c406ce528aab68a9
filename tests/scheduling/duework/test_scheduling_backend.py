"""The scheduler's own backend: real clusters whose worker dies at each point, and production's restart after it."""

import os
import uuid
from pathlib import Path
from typing import Any, Final

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from due_work_harness import configure
from due_work_harness.host import Host
from due_work_harness.process_histories import ProcessHistory, assert_pinned_process_outcomes, fault_environment

from scheduling.django_tasks import task_backends
from scheduling.domain.calls import ENDED
from scheduling.models import ScheduledFunction
from scheduling.operations import clusters
from tests import farm, forkserver
from tests.scheduling.concurrency.support import supervisor
from tests.scheduling.duework import tasks

pytestmark = [pytest.mark.long, pytest.mark.django_db(transaction=True)]
ENQUEUED: Final = ("task_enqueued receiver", "task_enqueued receiver raises")
_ENQUEUE: Final = """
import django
django.setup()
from django.db import transaction
from tests.scheduling.duework import tasks
with transaction.atomic():
    tasks.{task}.enqueue({name!r}, {effects!r})
"""
DONE: Final = ("SUCCESSFUL", 1)
# Of an action whose process died after its start nobody knows how far it came: it is never started twice.
UNKNOWN: Final = {
    "died at task_started receiver": ("FAILED", 0),
    "died at task body before effect": ("FAILED", 0),
    "died at external call": ("FAILED", 1),
    "died at task_finished receiver": ("SUCCESSFUL", 1),
}
# What dies before the commit that enqueues has enqueued nothing.
NOTHING: Final = {"died at task_enqueued receiver": ("none", 0)}


class Program:
    """Enqueue in one process, work in others, look from here."""

    def __init__(self, task: str, cluster: str, folder: Path) -> None:
        self.task, self.cluster, self.folder = task, cluster, folder
        self.effects = folder / "effects"
        self.effects.touch()

    def run(self, point: str | None) -> tuple[str, int]:
        """Enqueue and work until it has ended, or the fault has happened."""
        name = uuid.uuid4().hex
        marker = self.folder / f"marker-{name}"
        faults = fault_environment(point, marker)
        if point in ENQUEUED:
            code = _ENQUEUE.format(task=self.task, name=name, effects=str(self.effects))
            database = {"JOBFARM_TEST_DATABASE": str(connection.settings_dict["NAME"])}
            environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "jobfarm.settings", **database, **faults}
            forkserver.run(["-c", code], cwd=forkserver.ROOT, env=environment, timeout=60)
        else:
            with transaction.atomic():
                getattr(tasks, self.task).enqueue(name, str(self.effects))
        if not marker.exists():
            self.work(lambda: marker.exists() or self.is_over(name), **faults)
        return name, int(marker.exists())

    def work(self, is_over: Any, **environment: str) -> None:
        """Let a cluster run until that."""
        with supervisor(self.cluster, "--workers", "1", **environment):
            farm.until(is_over, within_s=60)

    def recover(self, name: str) -> None:
        """What production does after any death: its clusters start again, and take over from those that are gone."""
        self.work(lambda: self.is_over(name))
        clusters.sweep()

    def is_over(self, name: str) -> bool:
        """Whether nothing more comes of it."""
        return all(row.status in ENDED for row in self.rows(name))

    def rows(self, name: str) -> list[ScheduledFunction]:
        """The scheduled functions of this task."""
        return [row for row in ScheduledFunction.objects.all() if name in str(row.args)]

    def observe(self, name: str) -> tuple[str, int]:
        """How it stands by the interface's own word, and how often its effect happened."""
        [status] = [task_backends["default"].get_result(str(row.pk)).status.name for row in self.rows(name)] or ["none"]
        lines = self.effects.read_text().splitlines().count(name)
        return status, lines + Group.objects.filter(name=name).count()


@pytest.mark.parametrize(
    ("task", "cluster", "outcomes"), [("send", "--actions", NOTHING | UNKNOWN), ("record", "--mutations", NOTHING)]
)
def test_a_task_whose_process_dies_anywhere_comes_to_what_is_promised(
    task: str, cluster: str, outcomes: dict[str, Any], tmp_path: Path
) -> None:
    configure(Host(production_packages=frozenset({"scheduling", "jobs", "core", "django"})))
    tmp_path.chmod(0o777)
    program = Program(task, cluster, tmp_path)

    def recover(name: str) -> None:
        clusters.sweep()
        program.recover(name)

    history: ProcessHistory[str, tuple[str, int]] = ProcessHistory(
        name=f"SchedulingBackend {cluster}",
        initial=("none", 0),
        run=program.run,
        observe=program.observe,
        recover=recover,
        death_points=(
            "task_enqueued receiver",
            "task_started receiver",
            "task body before effect",
            "external call",
            "task_finished receiver",
        ),
        failure_points=(
            "task_enqueued receiver raises",
            "task_started receiver raises",
            "task_finished receiver raises",
        ),
    )
    assert_pinned_process_outcomes(history, delivered=DONE, outcomes=outcomes)
