"""What members make in the farm, and all share, has a bound for each of them (docs/security.md)."""

from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User

from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.domain.workers import Facts
from jobs.errors import QuotaReached
from jobs.models import Queue, Worker
from jobs.queries import bulks, lists
from tests import farm

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _few(settings: LazySettings) -> None:
    settings.JOBFARM = settings.JOBFARM | {"WORKERS_PER_OWNER": 3, "QUEUES_PER_OWNER": 2}


@pytest.fixture
def ada() -> User:
    return farm.user()


def _worker(owner: User, *queues: str, by: User | None = None) -> Worker:
    return operations.create_worker("w", queues=queues or ("chat",), owner=owner, by=by or owner)[0]


def _refusal(make: Any, *args: Any) -> tuple[Any, ...]:
    with pytest.raises(QuotaReached) as refused:
        make(*args)
    return tuple(refused.value.numbers[name] for name in ("of", "what", "quota", "used", "more"))


class TestWorkers:
    def test_of_a_member_are_bounded_the_revoked_ones_of_today_included(self, ada: User) -> None:
        for _ in range(3):
            operations.revoke(_worker(ada))
        assert _refusal(_worker, ada) == ("owner", "workers", 3, 3, 1)
        _worker(farm.user("bob"))

    def test_that_operators_make_are_not(self, ada: User) -> None:
        boss = farm.user("boss", is_staff=True, is_superuser=True)
        for _ in range(4):
            _worker(ada, "one", "two", "three", by=boss)
        assert Queue.objects.filter(made_by=ada).count() == 0


class TestQueues:
    def test_that_come_with_a_members_workers_are_bounded(self, ada: User) -> None:
        farm.kind()
        _worker(ada, "work", "a", "b")
        assert _refusal(_worker, ada, "work", "a", "c") == ("owner", "new queues", 2, 2, 1)
        assert not Queue.objects.filter(name="c").exists()
        _worker(ada, "work", "b")
        _worker(farm.user("bob"), "c")

    def test_of_models_beyond_are_left_out_however_often_it_announces_others(self, ada: User) -> None:
        worker = _worker(ada, "openai")
        for turn in range(3):
            operations.introduce(worker, Facts(models=(f"m{turn}", f"n{turn}")))
        assert Queue.objects.filter(made_by=ada).count() <= 2
        assert farm.stored_worker(worker).queues == ["openai"]
        operations.introduce(farm.stored_worker(worker), Facts(models=("m0", "other")))
        assert farm.stored_worker(worker).queues == ["openai", "openai.m0"]


def test_bulk_actions_that_are_not_over_are_bounded(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulks, "MOST_OPEN", 2)

    def ask() -> None:
        operations.bulk.create(BulkAction.CANCEL, by=ada, filters=Filters())

    ask()
    ask()
    assert _refusal(ask) == ("owner", "bulk actions that are not over", 2, 2, 1)


def test_saved_filters_are_bounded(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "MOST_SAVED", 1)
    lists.save_filter(ada, name="a", query={"status": "failed"})
    assert lists.is_full_of_filters(ada, name="b")
    assert not lists.is_full_of_filters(ada, name="a")
