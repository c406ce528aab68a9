"""The client's task backend against due-work-harness: a site and its `farm_worker` that die at each point."""

import uuid
from pathlib import Path
from typing import Final

import pytest
from due_work_harness import configure
from due_work_harness.host import Host
from due_work_harness.process_histories import ProcessHistory, assert_pinned_process_outcomes, fault_environment

from accounts import operations as accounts
from jobs import operations
from jobs.domain.states import ENDED
from jobs.models import Job
from tests import farm
from tests.client.integration.sites import Site
from tests.servers import Server

pytestmark = pytest.mark.long
ENQUEUED: Final = ("task_enqueued receiver", "task_enqueued receiver raises")
_ENQUEUE: Final = """
from letters import dying
with transaction.atomic():
    dying.deliver.enqueue({name!r}, {effects!r})
answer = None"""
_STATUS: Final = """
from jobfarm_client.django.models import FarmTask
rows = FarmTask.objects.filter(body__payload__args__0={name!r})
answer = [task_backends["default"].get_result(str(row.pk)).status.name for row in rows]"""
DONE: Final = ("SUCCESSFUL", 1)
OUTCOMES: Final = {
    "died at task_enqueued receiver": ("none", 0),  # before the commit: nothing was enqueued
    # A task of a farm is tried again when its worker is lost, as the kind says (max_attempts): at least once.
    "died at external call": ("SUCCESSFUL", 2),
    "died at task_finished receiver": ("SUCCESSFUL", 2),
}


class Program:
    """Enqueue in a process of the site, work in its `farm_worker`, look from a third."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site, self.folder, self.effects = site, folder, folder / "effects"
        self.effects.touch()

    def run(self, point: str | None) -> tuple[str, int]:
        """Enqueue and work until it has ended, or the fault has happened."""
        name = uuid.uuid4().hex
        marker = self.folder / f"marker-{name}"
        self.site._environment |= fault_environment(point, marker)
        try:
            self.site._run(["-c", self.site.script(_ENQUEUE.format(name=name, effects=str(self.effects)))], farm="")
            if not marker.exists():
                with self.site.working("--queues", "django-task", may_die=True):
                    farm.until(lambda: marker.exists() or self.is_over(name), within_s=60)
        finally:
            self.site._environment |= fault_environment(None)
        return name, int(marker.exists())

    def recover(self, name: str) -> None:
        """The lease of who died runs out, and the site's worker starts again."""
        for job in Job.objects.running():
            farm.expire_lease(job)
        operations.sweep()
        for job in Job.objects.waiting():
            farm.make_due(job)
        if self.observe(name)[0] != "none":
            with self.site.working("--queues", "django-task", may_die=True):  # asked to end before it has begun
                farm.until(lambda: self.is_over(name), within_s=60)

    def is_over(self, name: str) -> bool:
        """Whether the farm has it, and nothing more to do."""
        jobs = [job for job in Job.objects.whole() if name in str(job.payload)]
        return bool(jobs) and all(job.status in ENDED for job in jobs)

    def observe(self, name: str) -> tuple[str, int]:
        """How it stands by the interface's own word, and how often its effect happened."""
        [status] = self.site.run(_STATUS.format(name=name)) or ["none"]
        return status, self.effects.read_text().splitlines().count(name)


def test_a_task_of_a_site_whose_process_dies_anywhere_comes_to_what_is_promised(server: Server, tmp_path: Path) -> None:
    configure(Host(production_packages=frozenset({"jobfarm_client", "jobfarm_worker", "jobs", "django"})))
    farm.kind("django-task", max_attempts=3)
    _, token = accounts.create_token(farm.user("site", is_staff=True, is_superuser=True), name="site")
    _, key = operations.create_worker("site-1", queues=["django-task"])
    site = Site(tmp_path, farm=server.url, token=token, key=key)
    assert site.manage("migrate")[0] == 0
    program = Program(site, tmp_path)

    def recover(name: str) -> None:
        operations.sweep()
        program.recover(name)

    history: ProcessHistory[str, tuple[str, int]] = ProcessHistory(
        name="FarmBackend",
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
    assert_pinned_process_outcomes(history, delivered=DONE, outcomes=OUTCOMES)
