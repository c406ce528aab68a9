"""Flows, and the processes that die while they write one down, end a step, or look what comes after it."""

from pathlib import Path

import pytest

from jobs import operations as jobs
from jobs.errors import LeaseLost
from tests import farm
from tests.crashes.points import Template
from tests.crashes.scenes import Scene, Stage, die_at_every_point

pytestmark = [pytest.mark.landing, pytest.mark.django_db(transaction=True)]


def two_steps(scene: Scene, outcome: str) -> None:
    """A job that a worker has, and one that comes after it."""
    farm.kind(max_attempts=1)
    [first] = farm.submit(1)
    jobs.submit("work", {}, after=[first.pk])
    scene.worker = farm.worker()
    claimed = farm.claim_one(scene.worker)
    jobs.heartbeat(scene.worker, claimed.id, claimed.lease)
    scene.claimed.append(claimed)
    scene.given = {"worker": scene.worker.pk, "job": claimed.id, "lease": str(claimed.lease), "outcome": outcome}


def go_on(scene: Scene) -> None:
    """The worker had no answer, so it says it once more; the janitor looks, and whoever gets a job does it."""
    worker = scene.worker or farm.worker()
    for claimed in scene.claimed:
        hand_in = farm.fail if scene.given.get("outcome") == "failed" else farm.succeed
        assert hand_in(worker, claimed) in {"success", "failed"}
    jobs.tend_lanes()
    while taken := jobs.claim(worker, limit=10):
        for claimed in taken:
            assert not isinstance(farm.succeed(worker, claimed), LeaseLost)
    jobs.tend_lanes()


RUNS: Stage = {"jobs": [("in_progress", 1, 0), ("pending", 0, 0)], "steps": 2, "edges": 1, "open": 1}
SUCCEEDED: Stage = {"jobs": [("success", 1, 0), ("pending", 0, 0)], "steps": 2, "edges": 1, "results": 1}
# Its end is committed, and nobody has looked: a note says so.
FAILED: Stage = {
    "jobs": [("failed", 1, 1), ("pending", 0, 0)], "steps": 2, "edges": 1, "notes": 1, "attempts": ["failed"],
}  # fmt: skip


def without(stage: Stage, *names: str) -> Stage:
    return {name: value for name, value in stage.items() if name not in names}


class TestAFlow:
    """What the web server does."""

    def test_goes_on_after_a_step_that_succeeded(self, forks: Template, tmp_path: Path) -> None:
        end = {**SUCCEEDED, "jobs": [("success", 1, 0)] * 2}
        die_at_every_point(
            forks, "finish", prepare=lambda scene: two_steps(scene, "success"), go_on=go_on, lines=tmp_path / "lines",
            stages=[(RUNS, without(end, "results")), (SUCCEEDED, end)],
        )  # fmt: skip

    def test_ends_after_a_step_that_failed(self, forks: Template, tmp_path: Path) -> None:
        end = {**without(FAILED, "notes"), "jobs": [("failed", 1, 1), ("canceled", 0, 0)]}
        die_at_every_point(
            forks, "finish", prepare=lambda scene: two_steps(scene, "failed"), go_on=go_on, lines=tmp_path / "lines",
            stages=[(RUNS, end), (FAILED, end), (end, end)],
        )  # fmt: skip

    def test_is_written_down_whole(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            farm.kind()
            [first] = farm.submit(1)
            scene.given = {"of": first.pk}

        written: Stage = {"jobs": [("pending", 0, 0)] * 3, "steps": 3, "edges": 2, "open": 2}
        end = {**without(written, "open"), "jobs": [("success", 1, 0)] * 3}
        die_at_every_point(
            forks, "submit_flow", prepare=prepare, go_on=go_on, lines=tmp_path / "lines",
            stages=[({"jobs": [("pending", 0, 0)]}, {"jobs": [("success", 1, 0)]}), (written, end)],
        )  # fmt: skip
