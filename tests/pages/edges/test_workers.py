"""The list of workers is narrowed, sorted, and says how each did lately."""

import re

import pytest

from jobs import operations
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def _fleet(little_farm: Farm) -> None:
    """w1 failed one of its two jobs, w2 none of its one; old is revoked."""
    for worker, fails in (
        (little_farm.worker, True),
        (little_farm.worker, False),
        (farm.worker("w2", "image"), False),
    ):
        operations.submit("chat" if worker.name == "w1" else "image", {}, owner=little_farm.ada)
        claimed = farm.claim_one(worker)
        farm.fail(worker, claimed, retryable=False) if fails else farm.succeed(worker, claimed)
    operations.revoke(farm.worker("old", "chat"), by=None)


@pytest.mark.usefixtures("_fleet")
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", {"w1", "w2", "old"}), ("text=W2", {"w2"}), ("status=revoked", {"old"}), ("status=live", {"w1", "w2"}),
        ("text=nothing", set()), ("status=moon", {"w1", "w2", "old"}),
    ],
)  # fmt: skip
def test_are_those_that_match(browse: Browse, little_farm: Farm, query: str, names: set[str]) -> None:
    page = browse(little_farm.oscar).get(f"/workers/?{query}").content.decode()
    assert set(re.findall(r'<a href="/workers/\d+/">(\w+)</a>', page)) == names


@pytest.mark.usefixtures("_fleet")
def test_are_sorted_by_what_failed_and_say_it(browse: Browse, little_farm: Farm) -> None:
    page = browse(little_farm.oscar).get("/workers/?sort=failed").content.decode()
    assert re.findall(r'<a href="/workers/\d+/">(\w+)</a>', page)[0] == "w1"
    shares = [
        " ".join(each.split()) for each in re.findall(r'data-label="Failed"[^>]*>(.*?)</td>', page, re.DOTALL)
    ]
    assert shares[:2] == ["50 %", "0 %"]
