"""Waits and runs on the page of a queue, over an hour, a day and a week."""

import re

import pytest

from jobs import operations
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db

DURATIONS = re.compile(r"[\d.]+ m?s · [\d.]+ m?s · [\d.]+ m?s")


@pytest.fixture(autouse=True)
def _counted(little_farm: Farm) -> None:
    """A job of the queue image that succeeded, counted; none of the queue chat ended."""
    operations.cancel(little_farm.job.pk, by=None)
    operations.submit("image", {}, owner=little_farm.ada)
    farm.succeed(little_farm.worker, farm.claim_one(little_farm.worker))
    operations.roll_up()


def _rows(page: str) -> list[str]:
    return re.findall(r'data-key="d\w+".*?</tr>', page, re.DOTALL)


def test_are_of_this_queue_alone_in_each_period(browse: Browse, little_farm: Farm) -> None:
    rows = _rows(browse(little_farm.oscar).get("/queues/image/").content.decode())
    assert [re.findall(r"The last (\w+)", row) for row in rows] == [["hour"], ["day"], ["week"]]
    assert all('data-label="Ended" class="number">1<' in row for row in rows)
    assert [len(DURATIONS.findall(row)) for row in rows] == [2, 2, 2]


def test_are_dashes_where_nothing_ran(browse: Browse, little_farm: Farm) -> None:
    rows = _rows(browse(little_farm.oscar).get("/queues/chat/").content.decode())
    assert len(rows) == 3
    assert not any(DURATIONS.search(row) for row in rows)


def test_are_not_for_members(browse: Browse, little_farm: Farm) -> None:
    page = browse(little_farm.ada).get("/queues/image/").content.decode()
    assert "queue-durations" not in page
    assert not _rows(page)
