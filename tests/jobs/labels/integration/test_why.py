"""Why a job with requirements waits, and what the farm's own alerts and the doctor say of its queue."""

from datetime import timedelta

import pytest
from django.db.models import F

from jobs import operations
from jobs.models import Worker
from jobs.queries import gauges, reads
from tests import farm
from tests.jobs.labels import sample
from tests.jobs.labels.sample import labelled

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _kind() -> None:
    farm.kind()


def _why(job_id: int) -> list[tuple[str, str]]:
    return [(reason.code, reason.sentence) for reason in reads.why_not_running(job_id)]


class TestWhy:
    def test_names_the_label_that_is_missing_and_the_nearest_worker(self) -> None:
        labelled("gpu-1", vram="8", region="home")
        labelled("gpu-2", vram="12")
        job = sample.job({"vram": ">=16"})
        [reason] = reads.why_not_running(job.pk)
        assert reason.sentence == "No live worker has vram>=16; the nearest is gpu-2 with vram=12."
        assert reason.numbers == {"missing": {"vram": ">=16"}, "nearest": "gpu-2", "workers": 2}
        assert [remedy.code for remedy in reason.remedies] == ["add_label", "add_worker"]

    def test_names_what_nobody_has_alone(self) -> None:
        labelled("gpu-1", vram="24", region="lab")
        job = sample.job({"vram": ">=16", "region": "home"})
        assert _why(job.pk) == [("no_label", "No live worker has region=home; the nearest is gpu-1 with region=lab.")]

    def test_says_where_no_worker_has_all_at_once(self) -> None:
        labelled("a", vram="24")
        labelled("b", region="home", vram="2")
        job = sample.job({"vram": ">=16", "region": "home"})
        assert _why(job.pk) == [
            ("no_label", "No live worker has region=home and vram>=16 at once; the nearest is b with vram=2.")
        ]

    def test_names_no_worker_that_could_not_take_it_anyway(self) -> None:
        ada, bob = farm.user("ada"), farm.user("bob")
        labelled("hers", vram="12", owner=ada)
        labelled("other-queue", "other", vram="12")
        job = sample.job({"vram": ">=16"}, owner=bob)
        assert [code for code, _ in _why(job.pk)] == ["out_of_scope"]

    def test_says_that_it_is_next_once_a_worker_has_the_label(self) -> None:
        worker = labelled("gpu", vram="12")
        job = sample.job({"vram": ">=16"})
        sample.announce(worker, vram="16")
        assert [code for code, _ in _why(job.pk)] == ["next"]

    def test_counts_ahead_what_the_same_workers_may_take_alone(self) -> None:
        labelled("gpu", vram="12")
        for _ in range(3):
            sample.job({"vram": ">=16"})
        sample.job({"vram": ">=8"})
        [reason] = reads.why_not_running(sample.job().pk)
        assert (reason.code, reason.numbers["jobs"]) == ("ahead", 1)

    def test_says_who_gets_it_first_while_a_head_start_lasts(self) -> None:
        labelled("elsewhere", "other", region="home")
        farm.worker("here")
        job = sample.job(prefers={"region": "home"})
        [reason] = reads.why_not_running(job.pk)
        assert reason.code == "head_start"
        assert reason.sentence.startswith("A live worker that has region=home gets it first; any other may take it in")
        farm.pass_time(job, 2.1)
        assert [code for code, _ in _why(job.pk)] == ["next"]

    def test_is_drained_where_who_has_the_label_is_drained(self) -> None:
        operations.drain(labelled("gpu", vram="24"))
        labelled("small", vram="8")
        assert [code for code, _ in _why(sample.job({"vram": ">=16"}).pk)] == ["all_drained"]


class TestQueues:
    def test_of_which_a_job_requires_what_no_live_worker_has_are_named(self) -> None:
        worker = labelled("gpu", vram="12")
        sample.job()
        [queue] = reads.waiting_queues()
        assert (queue.served, queue.out_of_scope, queue.lacking) == (True, False, None)
        sample.job({"vram": ">=16"}, {"region": "home"})
        [queue] = reads.waiting_queues()
        assert (queue.served, queue.lacking) == (True, {"vram": ">=16"})
        sample.announce(worker, vram="16")
        [queue] = reads.waiting_queues()
        assert queue.lacking is None

    def test_that_nobody_serves_lack_a_worker_and_not_a_label(self) -> None:
        sample.job({"vram": ">=16"})
        [queue] = reads.waiting_queues()
        assert (queue.served, queue.lacking) == (False, None)

    def test_count_such_jobs_for_autoscalers(self) -> None:
        labelled("gpu", vram="12")
        sample.job({"vram": ">=16"})
        sample.job(prefers={"region": "home"})
        sample.job()
        [queue] = gauges.queue_loads(queue="work")
        assert queue.load.waiting == 3

    def test_are_not_alarming_for_preferences(self) -> None:
        labelled("gpu", vram="12")
        sample.job(prefers={"vram": ">=16"})
        [queue] = reads.waiting_queues()
        assert queue.lacking is None


def test_a_worker_that_is_away_has_no_label() -> None:
    worker = labelled("gpu", vram="24")
    Worker.objects.filter(pk=worker.pk).update(last_seen_at=F("last_seen_at") - timedelta(hours=1))
    labelled("small", vram="2")
    job = sample.job({"vram": ">=16"})
    assert _why(job.pk)[0][1] == "No live worker has vram>=16; the nearest is small with vram=2."
