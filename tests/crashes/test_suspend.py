"""Jobs that wait for their own or for a signal, and the processes that die while they let them wait or go on."""

from pathlib import Path
from typing import Any

import pytest

from jobs import operations as jobs
from jobs.models import FlowTemplate, Suspension
from tests import farm
from tests.crashes import actions
from tests.crashes.points import Template
from tests.crashes.scenes import Scene, Stage, die_at_every_point

pytestmark = [pytest.mark.landing, pytest.mark.django_db(transaction=True)]
RUNNING: Stage = {"jobs": [("in_progress", 1, 0)]}
WITH_CHILD: Stage = {"jobs": [("in_progress", 1, 0), ("pending", 0, 0)], "steps": 2}
WAITS_FOR_CHILD: Stage = {
    "jobs": [("pending", 1, 0), ("pending", 0, 0)], "steps": 2, "edges": 1, "open": 1, "attempts": ["suspended"],
}  # fmt: skip
BOTH_DONE: Stage = {"jobs": [("success", 2, 0), ("success", 1, 0)], "steps": 2, "edges": 1, "attempts": ["suspended"]}
WAITS: Stage = {"jobs": [("pending", 1, 0)], "attempts": ["suspended"], "waits": ["approved until"]}
CAME: Stage = {**WAITS, "waits": ["approved came"], "signals": [("approved", True)]}
DONE: Stage = {**CAME, "jobs": [("success", 2, 0)]}
TIMED_OUT: Stage = {**WAITS, "waits": ["approved timed out"]}
FOR_A_SIGNAL = {"signal": "approved", "timeout_s": 3600.0}


def a_running_job(scene: Scene) -> jobs.ClaimedJob:
    farm.kind()
    scene.worker = farm.worker()
    farm.submit(1)
    claimed = farm.claim_one(scene.worker)
    jobs.heartbeat(scene.worker, claimed.id, claimed.lease)
    scene.given = {"worker": scene.worker.pk, "job": claimed.id, "lease": str(claimed.lease)}
    return claimed


def a_parent(scene: Scene, **wait: Any) -> None:
    """A running job with one of its own, which it is to wait for."""
    claimed = a_running_job(scene)
    assert scene.worker is not None
    new = jobs.NewJob(kind="work", payload="child")
    child = jobs.submit_child(scene.worker, claimed.id, claimed.lease, new, position=0)
    scene.given["wait"] = {"children": [child], **wait}


def one_that_is_to_wait(scene: Scene) -> None:
    a_running_job(scene)
    scene.given["wait"] = FOR_A_SIGNAL


def one_whose_signal_came_before(scene: Scene) -> None:
    one_that_is_to_wait(scene)
    actions.send(job=scene.given["job"])


def one_that_waits(scene: Scene) -> None:
    one_that_is_to_wait(scene)
    actions.suspend(**scene.given)
    scene.given = {"job": scene.given["job"]}


def one_whose_time_is_over(scene: Scene) -> None:
    one_that_waits(scene)
    Suspension.objects.update(until=farm.now())
    scene.given = {}


def a_parent_whose_time_is_over(scene: Scene) -> None:
    a_parent(scene, timeout_s=3600.0)
    actions.suspend(**scene.given)
    Suspension.objects.update(until=farm.now())
    scene.given = {}


def work(scene: Scene) -> list[jobs.ClaimedJob]:
    """The janitor looks, and whoever gets a job does it: what was done, in its order."""
    worker, done = scene.worker or farm.worker(), list[jobs.ClaimedJob]()
    jobs.tend_lanes()
    while taken := jobs.claim(worker, limit=1):
        assert farm.succeed(worker, taken[0]) == "success"
        done += taken
    jobs.tend_lanes()
    return done


def hand_in_again(scene: Scene) -> None:
    """The worker had no answer, so it says it once more."""
    actions.suspend(**scene.given)
    child, parent = work(scene)
    assert (child.payload, parent.id) == ("child", scene.given["job"])
    assert [one.id for one in parent.after or ()] == [child.id]


def hand_in_again_and_send(scene: Scene) -> None:
    actions.suspend(**scene.given)
    assert jobs.claim(scene.worker or farm.worker()) == []
    send_again(scene)


def send_again(scene: Scene) -> None:
    """Who sends the signal had no answer, so it is sent once more."""
    actions.send(job=scene.given["job"])
    [job] = work(scene)
    assert job.signal is not None
    assert (job.signal.data, job.signal.timed_out) == (7, False)


def hand_in_again_with_its_signal(scene: Scene) -> None:
    actions.suspend(**scene.given)
    [job] = work(scene)
    assert job.signal is not None
    assert job.signal.data == 7


def submit_again(scene: Scene) -> None:
    actions.submit_child(**scene.given)
    assert scene.worker is not None
    [child] = work(scene)
    assert child.payload == "child"


def sweep_again(scene: Scene) -> None:
    jobs.sweep()
    done = work(scene)
    assert [one.signal is not None and one.signal.timed_out for one in done if one.fence == 2] == [True]


class TestASuspend:
    """What the web server does."""

    def test_for_jobs_of_its_own(self, forks: Template, tmp_path: Path) -> None:
        die_at_every_point(
            forks, "suspend", prepare=a_parent, go_on=hand_in_again, lines=tmp_path / "lines",
            stages=[(WITH_CHILD, BOTH_DONE), (WAITS_FOR_CHILD, BOTH_DONE)],
        )  # fmt: skip

    def test_for_a_signal(self, forks: Template, tmp_path: Path) -> None:
        die_at_every_point(
            forks, "suspend", prepare=one_that_is_to_wait, go_on=hand_in_again_and_send, lines=tmp_path / "lines",
            stages=[(RUNNING, DONE), (WAITS, DONE)],
        )  # fmt: skip

    def test_for_a_signal_that_came_before(self, forks: Template, tmp_path: Path) -> None:
        kept: Stage = {**RUNNING, "signals": [("approved", False)]}
        die_at_every_point(
            forks, "suspend", prepare=one_whose_signal_came_before, go_on=hand_in_again_with_its_signal,
            lines=tmp_path / "lines", stages=[(kept, DONE), (CAME, DONE)],
        )  # fmt: skip

    def test_ends_by_the_signal(self, forks: Template, tmp_path: Path) -> None:
        die_at_every_point(
            forks, "send", prepare=one_that_waits, go_on=send_again, lines=tmp_path / "lines",
            stages=[(WAITS, DONE), (CAME, DONE)],
        )  # fmt: skip

    def test_ends_by_its_time(self, forks: Template, tmp_path: Path) -> None:
        """The janitor does it."""
        end: Stage = {**TIMED_OUT, "jobs": [("success", 2, 0)]}
        die_at_every_point(
            forks, "sweep", prepare=one_whose_time_is_over, go_on=sweep_again, lines=tmp_path / "lines",
            stages=[(WAITS, end), (TIMED_OUT, end)],
        )  # fmt: skip

    def test_for_jobs_of_its_own_ends_by_its_time(self, forks: Template, tmp_path: Path) -> None:
        before: Stage = {**WAITS_FOR_CHILD, "waits": ["until"]}
        over: Stage = {name: value for name, value in before.items() if name != "open"} | {"waits": ["timed out"]}
        end: Stage = {**over, "jobs": BOTH_DONE["jobs"]}
        die_at_every_point(
            forks, "sweep", prepare=a_parent_whose_time_is_over, go_on=sweep_again, lines=tmp_path / "lines",
            stages=[(before, end), (over, end)],
        )  # fmt: skip


class TestAJobOfAJob:
    def test_is_submitted_once(self, forks: Template, tmp_path: Path) -> None:
        end: Stage = {"jobs": [("in_progress", 1, 0), ("success", 1, 0)], "steps": 2}
        die_at_every_point(
            forks, "submit_child", prepare=a_running_job, go_on=submit_again, lines=tmp_path / "lines",
            stages=[(RUNNING, end), (WITH_CHILD, end)],
        )  # fmt: skip


class TestAFlowTemplate:
    def test_is_started_whole_or_not_at_all(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            farm.kind()
            steps = [
                {"name": "a", "kind": "work", "payload": "{{ number }}"},
                {"name": "b", "kind": "work", "after": ["a"]},
            ]
            FlowTemplate.objects.create(name="nightly", placeholders={"number": None}, jobs=steps)
            scene.given = {"template": "nightly"}

        begun: Stage = {"jobs": [("pending", 0, 0)] * 2, "steps": 2, "edges": 1, "open": 1}
        end: Stage = {"jobs": [("success", 1, 0)] * 2, "steps": 2, "edges": 1}
        die_at_every_point(
            forks, "start_flow", prepare=prepare, go_on=work, lines=tmp_path / "lines", stages=[({}, {}), (begun, end)],
        )  # fmt: skip
