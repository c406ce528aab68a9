"""Jobs that take of a budget, and the processes that die while they submit or end them."""

from decimal import Decimal
from pathlib import Path

import pytest
from django.contrib.auth.models import Group

from jobs import operations as jobs
from jobs.models import Job
from metering import operations as metering
from metering.models import Budget
from tests import farm
from tests.crashes.points import Template
from tests.crashes.scenes import Scene, Stage, die_at_every_point
from tests.crashes.test_jobs import finish_again, go_on_with_jobs
from tests.metering import budgets

pytestmark = [pytest.mark.landing, pytest.mark.django_db(transaction=True)]
RESERVED: Stage = {"groups": 1, "reserved": 60.0}


def a_budget(scene: Scene) -> Group:
    """A budget of seconds of a group, which has a kind to submit; a job of it is expected to take a minute."""
    farm.kind(retry_on_timeout=True)
    team = Group.objects.create(name="team")
    Budget.objects.create(group=team, unit="seconds", period="month", amount=Decimal(1_000_000))
    metering.forget_known()
    scene.worker = farm.worker()
    scene.given = {"worker": scene.worker.pk}
    return team


def a_running_job(scene: Scene) -> None:
    """One that has reserved its minute."""
    farm.submit(1, group=a_budget(scene))
    assert scene.worker is not None
    claimed = farm.claim_one(scene.worker)
    jobs.heartbeat(scene.worker, claimed.id, claimed.lease)
    scene.claimed.append(claimed)
    scene.given |= {"job": claimed.id, "lease": str(claimed.lease)}


class TestAJobWithABudget:
    def test_is_submitted_together_with_its_reservation(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            team = a_budget(scene)
            scene.given = {"kind": "work", "group": team.pk}

        def go_on(scene: Scene) -> None:
            assert budgets.is_balanced()
            go_on_with_jobs(scene)
            assert budgets.is_balanced()

        waits: Stage = {**RESERVED, "jobs": [("pending", 0, 0)]}
        end: Stage = {"groups": 1, "jobs": [("success", 1, 0)]}
        die_at_every_point(
            forks, "submit", prepare=prepare, go_on=go_on, lines=tmp_path / "lines",
            stages=[({"groups": 1}, {"groups": 1}), (waits, end)],
        )  # fmt: skip

    def test_is_settled_together_with_its_success(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            a_running_job(scene)
            scene.given["outcome"] = "success"

        def go_on(scene: Scene) -> None:
            assert budgets.is_balanced()
            finish_again(scene)
            assert budgets.is_balanced()

        runs: Stage = {**RESERVED, "jobs": [("in_progress", 1, 0)]}
        done: Stage = {"groups": 1, "jobs": [("success", 1, 0)], "results": 1}
        die_at_every_point(
            forks, "finish", prepare=prepare, go_on=go_on, lines=tmp_path / "lines", stages=[(runs, done), (done, done)]
        )

    def test_gives_back_when_it_is_canceled(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            [job] = farm.submit(1, group=a_budget(scene))
            scene.given = {"job": job.pk}

        def go_on(scene: Scene) -> None:
            for job in Job.objects.living():
                jobs.cancel(job.pk, by=None)
            assert budgets.is_balanced()

        waits: Stage = {**RESERVED, "jobs": [("pending", 0, 0)]}
        end: Stage = {"groups": 1, "jobs": [("canceled", 0, 0)]}
        die_at_every_point(
            forks, "cancel", prepare=prepare, go_on=go_on, lines=tmp_path / "lines", stages=[(waits, end), (end, end)]
        )
