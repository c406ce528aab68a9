"""Claims, submits of new sets, and labels that change, all at the same moment."""

import threading

import pytest
from django.db import connection, transaction

from jobs import operations
from jobs.domain import labels
from jobs.models import Job, Requirement, Worker
from jobs.queries import requirements
from tests import farm
from tests.jobs.labels import sample
from tests.jobs.labels.sample import labelled

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 12


@pytest.fixture(autouse=True)
def _kind() -> None:
    farm.kind()


def _satisfied(worker: Worker) -> set[int]:
    """Which sets the labels of this worker meet, by looking."""
    values = requirements.label_values([worker.pk])[worker.pk]
    return {
        pk
        for pk, one in requirements.everything().items()
        if labels.meets(one.requires, values) and labels.meets(one.prefers, values)
    }


def test_a_new_set_and_a_worker_with_new_labels_never_miss_each_other() -> None:
    workers = [farm.worker(f"w{n}") for n in range(3)]

    def submits(n: int) -> None:
        for turn in range(ROUNDS):
            sample.job({"vram": f">={turn % 7 + 10 * n}"}, {"region": "home"} if turn % 2 else None)

    def announces(worker: Worker) -> None:
        for turn in range(ROUNDS):
            sample.announce(worker, vram=str(turn * 3), region="home" if turn % 3 else "lab")

    farm.at_once(
        *[lambda n=n: submits(n) for n in range(2)], *[lambda worker=worker: announces(worker) for worker in workers]
    )
    for worker in workers:
        assert set(farm.stored_worker(worker).satisfies) == _satisfied(worker)
    assert Requirement.objects.count() == Requirement.objects.values("text").distinct().count()


def test_claims_give_each_job_once_and_only_to_who_has_its_label_while_labels_change() -> None:
    """A worker that never has the label gets none of its jobs, one that always has it gets them all."""
    never, always = labelled("never", vram="8"), labelled("always", vram="24")
    changing = labelled("changing", vram="8")
    wanted = {sample.job({"vram": ">=16"}).pk for _ in range(30)}
    plain = {sample.job().pk for _ in range(30)}
    got: dict[int, list[int]] = {worker.pk: [] for worker in (never, always, changing)}
    is_over = threading.Event()

    def claims(worker: Worker) -> None:
        while taken := operations.claim(worker, limit=2):
            got[worker.pk] += sample.ids(taken)

    def changes() -> None:
        turn = 0
        while not is_over.is_set() or turn < ROUNDS:
            sample.announce(changing, vram="24" if turn % 2 else "8")
            turn += 1

    def all_claims() -> None:
        try:
            farm.at_once(*[lambda worker=worker: claims(worker) for worker in (never, always, changing)])
        finally:
            is_over.set()

    farm.at_once(changes, all_claims)
    everything = [job for jobs in got.values() for job in jobs]
    assert len(everything) == len(set(everything))
    assert not wanted & set(got[never.pk])
    rest = sample.ids(operations.claim(always, limit=100))
    assert wanted | plain == {*everything, *rest}


def test_a_job_submitted_while_the_label_comes_is_taken_by_its_worker() -> None:
    worker = farm.worker("w")
    for turn in range(ROUNDS):
        bare = sample.announce(worker)
        farm.at_once(
            lambda turn=turn: sample.job({"vram": f">={turn + 1}"}),  # type: ignore[misc]
            lambda bare=bare: sample.announce(bare, vram="100"),  # type: ignore[misc]
        )
        assert len(operations.claim(worker)) == 1


def test_a_set_that_is_being_forgotten_is_there_for_the_job_that_needs_it() -> None:
    worker = labelled("w", vram="24")
    for _ in range(ROUNDS):
        job = sample.job({"vram": ">=16"})
        operations.cancel(job.pk, by=None)
        Job.objects.filter(pk=job.pk).delete()
        Requirement.objects.update(created_at="2020-01-01T00:00:00Z")
        farm.at_once(operations.forget_requirements, lambda: sample.job({"vram": ">=16"}))
        assert len(operations.claim(worker)) == 1


def test_a_new_set_in_an_open_transaction_holds_up_no_claim_and_no_known_set() -> None:
    worker = labelled("w", vram="24")
    sample.job({"vram": ">=16"})
    is_open, may_end = threading.Event(), threading.Event()

    def holds() -> None:
        with transaction.atomic():
            sample.job({"vram": ">=8"})
            is_open.set()
            assert may_end.wait(30)

    def goes_on() -> None:
        assert is_open.wait(30)
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '2s'")
                sample.job({"vram": ">=16"})
            assert len(operations.claim(worker, limit=5)) == 2
            operations.seen([worker.pk])
        finally:
            may_end.set()

    farm.at_once(holds, goes_on)
    assert len(operations.claim(worker)) == 1
