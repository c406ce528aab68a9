"""Filters that people keep under names."""

import pytest

from jobs.models import SavedFilter
from jobs.queries import lists
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


def test_is_kept_and_shown_to_its_owner_alone(little_farm: Farm, browse: Browse) -> None:
    data = {"name": "slow pictures", "kind": "image", "sort": "run", "text": "fog & dew"}
    answer = browse(little_farm.ada).post("/jobs/filters/save/", data, follow=True)
    page = answer.content.decode()
    assert "?kind=image&amp;sort=run&amp;text=fog+%26+dew" in page
    assert "slow pictures" in page
    assert "slow pictures" not in browse(little_farm.bob).get("/jobs/").content.decode()


def test_of_the_same_name_replaces_the_one_before(little_farm: Farm, browse: Browse) -> None:
    for status in ("failed", "success"):
        browse(little_farm.ada).post("/jobs/filters/save/", {"name": "mine", "status": status})
    assert SavedFilter.objects.get().query == {"status": "success"}


def test_is_forgotten_by_its_owner_alone(little_farm: Farm, browse: Browse) -> None:
    lists.save_filter(little_farm.ada, name="mine", query={"status": "failed"})
    address = f"/jobs/filters/{SavedFilter.objects.get().pk}/forget/"
    assert browse(little_farm.bob).post(address).status_code == 404
    assert browse(little_farm.ada).post(address).status_code == 302
    assert not SavedFilter.objects.exists()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"name": "", "status": "failed"}, "This field is required."),
        ({"name": "all"}, "There is no filter to save."),
        ({"name": "x" * 61, "status": "failed"}, "at most 60 characters"),
    ],
)
def test_that_is_none_is_refused(little_farm: Farm, browse: Browse, data: dict[str, str], sentence: str) -> None:
    answer = browse(little_farm.ada).post("/jobs/filters/save/", data, follow=True)
    assert sentence in answer.content.decode()
    assert not SavedFilter.objects.exists()


def test_beyond_the_most_is_refused_and_one_of_them_may_change(
    little_farm: Farm, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "MOST_SAVED", 1)
    client = browse(little_farm.ada)
    client.post("/jobs/filters/save/", {"name": "one", "status": "failed"})
    answer = client.post("/jobs/filters/save/", {"name": "two", "status": "failed"}, follow=True)
    assert "which is all you can have" in answer.content.decode()
    client.post("/jobs/filters/save/", {"name": "one", "status": "success"})
    assert SavedFilter.objects.get().query == {"status": "success"}
