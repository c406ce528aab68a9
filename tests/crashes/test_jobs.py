"""Jobs, and the processes of web server and janitor that die while they do something about one."""

from pathlib import Path

import pytest

from jobs import operations as jobs
from jobs.errors import LeaseLost
from jobs.models import Checkpoint, Job
from tests import farm
from tests.crashes.points import Template
from tests.crashes.scenes import Scene, Stage, die_at_every_point
from tests.jobs.limits.integration.sample import SLOW

pytestmark = [pytest.mark.landing, pytest.mark.django_db(transaction=True)]


def a_job(scene: Scene, *, limit: str | None = None, is_claimed: bool = True) -> None:
    """A job that is retried whatever happens to it, and a worker that may have claimed it and said so."""
    farm.kind(retry_on_timeout=True, limit=limit)
    farm.submit(1)
    scene.worker = farm.worker()
    scene.given = {"worker": scene.worker.pk}
    if is_claimed:
        claimed = farm.claim_one(scene.worker)
        jobs.heartbeat(scene.worker, claimed.id, claimed.lease)
        scene.claimed.append(claimed)
        scene.given |= {"job": claimed.id, "lease": str(claimed.lease)}


def go_on_with_jobs(scene: Scene) -> None:
    """Leases and backoffs run out, the janitor looks, and whoever gets a job does it."""
    for _ in range(2):
        for job in Job.objects.living():
            farm.pass_time(job, 7200)
        jobs.sweep()
    worker = scene.worker or farm.worker()
    for claimed in jobs.claim(worker, limit=10):
        assert farm.succeed(worker, claimed) == "success"


def finish_again(scene: Scene) -> None:
    """The worker had no answer, so it says it once more."""
    assert scene.worker is not None
    [claimed] = scene.claimed
    before = farm.everything(claimed)
    answer = farm.succeed(scene.worker, claimed, {"made": 1})
    assert answer == "success" or (isinstance(answer, LeaseLost) and farm.everything(claimed) == before)


RUNNING: Stage = {"jobs": [("in_progress", 1, 0)]}
# Nobody speaks for a job whose worker died: its lease runs out, and the second attempt does it.
SECOND_TRY: Stage = {"jobs": [("success", 2, 1)], "attempts": ["lost"]}


class TestAJob:
    """What the web server and the janitor do."""

    def test_is_submitted_together_with_the_tokens_it_takes(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            farm.kind(limit=SLOW)
            scene.given = {"kind": "work"}

        done: Stage = {"jobs": [("pending", 0, 0)], "tokens": 1.0}
        stages = [({}, {}), (done, {"jobs": [("success", 1, 0)], "tokens": 1.0})]
        die_at_every_point(
            forks, "submit", prepare=prepare, go_on=go_on_with_jobs, lines=tmp_path / "lines", stages=stages
        )

    def test_is_claimed_or_waits(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            a_job(scene, is_claimed=False)

        # Nobody got the answer, so nobody confirms it: that was no attempt, and a line in the history.
        again: Stage = {"jobs": [("success", 2, 0)], "attempts": ["unconfirmed"]}
        stages = [({"jobs": [("pending", 0, 0)]}, {"jobs": [("success", 1, 0)]}), (RUNNING, again)]
        die_at_every_point(
            forks, "claim", prepare=prepare, go_on=go_on_with_jobs, lines=tmp_path / "lines", stages=stages
        )

    def test_is_finished_once(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            a_job(scene)
            scene.given["outcome"] = "success"

        done: Stage = {"jobs": [("success", 1, 0)], "results": 1}
        die_at_every_point(
            forks, "finish", prepare=prepare, go_on=finish_again, lines=tmp_path / "lines",
            stages=[(RUNNING, done), (done, done)],
        )  # fmt: skip

    def test_fails_together_with_its_history(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            a_job(scene)
            scene.given |= {"outcome": "failed", "error": "it broke"}

        failed: Stage = {"jobs": [("pending", 1, 1)], "attempts": ["failed"]}
        end: Stage = {"jobs": [("success", 2, 1)], "attempts": ["failed"]}
        die_at_every_point(
            forks, "finish", prepare=prepare, go_on=go_on_with_jobs, lines=tmp_path / "lines",
            stages=[(RUNNING, SECOND_TRY), (failed, end)],
        )  # fmt: skip

    def test_is_given_back_whole(self, forks: Template, tmp_path: Path) -> None:
        given_back: Stage = {"jobs": [("pending", 1, 0)], "attempts": ["released"]}
        end: Stage = {"jobs": [("success", 2, 0)], "attempts": ["released"]}
        die_at_every_point(
            forks, "release", prepare=a_job, go_on=go_on_with_jobs, lines=tmp_path / "lines",
            stages=[(RUNNING, SECOND_TRY), (given_back, end)],
        )  # fmt: skip

    @pytest.mark.parametrize("before", [None, "half"])
    def test_keeps_the_new_checkpoint_or_the_one_before(
        self, forks: Template, tmp_path: Path, before: str | None
    ) -> None:
        def prepare(scene: Scene) -> None:
            a_job(scene)
            if before:
                assert scene.worker is not None
                [claimed] = scene.claimed
                jobs.checkpoint(scene.worker, claimed.id, claimed.lease, before)

        def go_on(scene: Scene) -> None:
            """The next attempt begins with what is stored."""
            [now] = Checkpoint.objects.values_list("value", flat=True) or [None]
            farm.lose(Job.objects.get())
            farm.pass_time(Job.objects.get(), 7200)
            claimed = farm.claim_one(farm.worker("other"))
            assert claimed.checkpoint == now
            assert scene.claimed

        old: Stage = {**RUNNING, "kept": [("half", 1, True)]} if before else RUNNING
        new: Stage = {**RUNNING, "kept": [("further", 1, True)]}
        lost: Stage = {"jobs": [("in_progress", 2, 1)], "attempts": ["lost"]}
        ends = [{**lost, **({"kept": stage["kept"]} if "kept" in stage else {})} for stage in (old, new)]
        die_at_every_point(
            forks, "checkpoint", prepare=prepare, go_on=go_on, lines=tmp_path / "lines",
            stages=[(old, ends[0]), (new, ends[1])],
        )  # fmt: skip

    def test_writes_a_piece_and_counts_it(self, forks: Template, tmp_path: Path) -> None:
        def write_again(scene: Scene) -> None:
            assert scene.worker is not None
            [claimed] = scene.claimed
            assert jobs.write_output(scene.worker, claimed.id, claimed.lease, seq=0, text="Hello.") == 1

        written = {**RUNNING, "pieces": (1, 1)}
        die_at_every_point(
            forks, "write", prepare=a_job, go_on=write_again, lines=tmp_path / "lines",
            stages=[(RUNNING, written), (written, written)],
        )  # fmt: skip

    def test_is_canceled_or_runs_on(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            a_job(scene)
            scene.given = {"job": scene.given["job"]}

        canceled: Stage = {"jobs": [("canceled", 1, 0)], "attempts": ["canceled"]}
        die_at_every_point(
            forks, "cancel", prepare=prepare, go_on=finish_again, lines=tmp_path / "lines",
            stages=[(RUNNING, {"jobs": [("success", 1, 0)], "results": 1}), (canceled, canceled)],
        )  # fmt: skip

    def test_gives_its_tokens_back_when_it_is_canceled(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            a_job(scene, limit=SLOW, is_claimed=False)
            scene.given = {"job": Job.objects.get().pk}

        waits: Stage = {"jobs": [("pending", 0, 0)], "tokens": 1.0}
        canceled: Stage = {"jobs": [("canceled", 0, 0)]}
        die_at_every_point(
            forks, "cancel", prepare=prepare, go_on=go_on_with_jobs, lines=tmp_path / "lines",
            stages=[(waits, {"jobs": [("success", 1, 0)], "tokens": 1.0}), (canceled, canceled)],
        )  # fmt: skip

    def test_is_timed_out_together_with_all_that_the_janitor_found(self, forks: Template, tmp_path: Path) -> None:
        def prepare(scene: Scene) -> None:
            farm.kind(retry_on_timeout=True)
            farm.submit(2)
            scene.worker = farm.worker()
            for claimed in jobs.claim(scene.worker, limit=2):
                farm.expire_lease(claimed)

        silent: Stage = {"jobs": [("in_progress", 1, 0)] * 2}
        noticed: Stage = {"jobs": [("pending", 1, 1)] * 2, "attempts": ["lost"] * 2}
        end: Stage = {"jobs": [("success", 2, 1)] * 2, "attempts": ["lost"] * 2}
        die_at_every_point(
            forks, "sweep", prepare=prepare, go_on=go_on_with_jobs, lines=tmp_path / "lines",
            stages=[(silent, end), (noticed, end)],
        )  # fmt: skip
