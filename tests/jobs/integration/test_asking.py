"""Which queues a worker asks for: known from its claims, written when that changes and not with every claim."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import operations
from jobs.errors import UnknownQueue
from jobs.models import Worker
from tests import farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def key() -> str:
    """Of a worker that has two queues and steals from the others."""
    for kind in ("small", "large", "huge"):
        farm.kind(kind)
    return operations.create_worker("w1", queues=["small", "large"], steals=["*"])[1]


def _asks() -> list[str] | None:
    return Worker.objects.values_list("polled_queues", flat=True).get()


def _later(seconds: float) -> None:
    worker = Worker.objects.get()
    worker.polled_at = [at - timedelta(seconds=seconds) for at in worker.polled_at or []]
    worker.save()


def _claim(key: str, *queues: str) -> list[str]:
    """Claim as a request with this key does; the tables written meanwhile."""
    worker = operations.authenticate(key)
    with CaptureQueriesContext(connection) as ran:
        operations.claim(worker, queues=list(queues) or None)
    return [query["sql"] for query in ran if "note_polled" in query["sql"]]


class TestWhatAWorkerAsksFor:
    def test_is_not_written_for_one_that_names_no_queues(self, key: str) -> None:
        assert [_claim(key), _claim(key), _asks()] == [[], [], None]

    def test_is_what_its_claim_named(self, key: str) -> None:
        _claim(key, "large", "huge")
        assert _asks() == ["large", "huge"]

    def test_is_all_when_it_names_all_that_its_key_may_take(self) -> None:
        for kind in ("small", "large"):
            farm.kind(kind)
        _, key = operations.create_worker("w1", queues=["small"], steals=["large"])
        assert [_claim(key, "small", "large"), _asks()] == [[], None]

    def test_is_written_when_it_changes_and_not_with_every_claim(self, key: str) -> None:
        writes = [len(_claim(key, *queues)) for queues in (["large"], ["large"], ["small"], ["small"], ["large"])]
        assert writes == [1, 0, 1, 0, 0]
        assert set(_asks() or []) == {"small", "large"}

    def test_is_all_that_it_asked_for_lately_where_it_takes_turns(self, key: str) -> None:
        _claim(key, "large")
        worker = operations.authenticate(key)
        operations.finish_and_claim(worker, [], limit=1)
        assert _asks() == ["*", "large"]

    def test_forgets_what_was_not_asked_for_again_as_long_as_a_worker_counts_as_alive(self, key: str) -> None:
        _claim(key, "large", "huge")
        _later(91)
        assert (len(_claim(key, "large")), _asks()) == (1, ["large"])

    def test_keeps_what_is_asked_for_again(self, key: str) -> None:
        for _ in range(4):
            _claim(key, "large", "huge")
            _claim(key, "small")
            _later(31)
        assert set(_asks() or []) == {"small", "large", "huge"}

    def test_is_all_again_once_it_names_none(self, key: str) -> None:
        _claim(key, "large")
        _later(91)
        _claim(key)
        assert (_asks(), len(_claim(key))) == (None, 0)

    def test_is_forgotten_with_its_key(self, key: str) -> None:
        _claim(key, "large")
        operations.rotate_key(Worker.objects.get())
        assert _asks() is None

    def test_is_not_noted_of_a_claim_that_is_refused(self, key: str) -> None:
        with pytest.raises(UnknownQueue):
            _claim(key, "nowhere")
        assert _asks() is None
