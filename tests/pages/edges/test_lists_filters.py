"""Filters of the list of jobs: each narrows, all stay in the address, and what is wrong is said."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Group

from jobs import operations
from jobs.models import Job
from jobs.queries import lists
from tests import farm
from tests.looped import looped
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


def _shown(answer: Any) -> list[int]:
    return [int(number) for number in re.findall(r'data-key="j(\d+)"', answer.content.decode())]


@pytest.fixture
def jobs(little_farm: Farm) -> dict[str, int]:
    """Jobs a day apart: the oldest failed loudly, the others say different things."""
    club = Group.objects.create(name="club")
    little_farm.eve.groups.add(club)
    loud = operations.submit("image", {"prompt": 'a "quoted"\nlighthouse'}, owner=little_farm.ada)
    operations.cancel(little_farm.job.pk, by=None)
    farm.fail(little_farm.worker, farm.claim_one(little_farm.worker), "KeyError: 100%_sure", retryable=False)
    quiet = operations.submit("chat", {"text": "Größe 42 % of it"}, owner=little_farm.eve, group=club)
    new = operations.submit("chat", {"deep": {"er": ["needle"]}}, owner=little_farm.ada)
    Job.objects.filter(pk=quiet.pk).update(priority=1)
    return {"sky": little_farm.job.pk, "loud": loud.pk, "quiet": quiet.pk, "new": new.pk}


class TestText:
    @looped(
        ("text", "names"),
        [
            ("needle", ["new"]),
            ("NEEDLE", ["new"]),
            ("größe", ["quiet"]),
            ('"quoted"\nlight', ["loud"]),
            ('"er": [', ["new"]),
            ("keyerror", ["loud"]),
            ("100%_s", ["loud"]),
            ("100_", []),
            ("why is", ["sky"]),
            ("\\", ["loud"]),
            ("%", ["quiet", "loud"]),
        ],
        rolled_back=True,
    )
    def test_is_found_in_payloads_and_errors(
        self, browse: Browse, little_farm: Farm, jobs: dict[str, int], text: str, names: list[str]
    ) -> None:
        shown = _shown(browse(little_farm.oscar).get(f"/jobs/?{urlencode({'text': text})}"))
        assert names == [name for pk in shown for name, number in jobs.items() if pk == number]

    def test_is_looked_for_only_among_what_one_may_see(
        self, browse: Browse, little_farm: Farm, jobs: dict[str, int]
    ) -> None:
        assert _shown(browse(little_farm.eve).get("/jobs/?text=needle")) == []
        assert _shown(browse(little_farm.ada).get("/jobs/?text=needle")) == [jobs["new"]]

    def test_is_looked_for_in_bounded_steps(
        self, browse: Browse, little_farm: Farm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lists, "TEXT_SCAN_LIMIT", 10)
        farm.submit(25, "chat", owner=little_farm.ada)
        for who in (little_farm.oscar, little_farm.ada):
            client, address, steps = browse(who), "?text=sky", 0
            while not (shown := _shown(answer := client.get(f"/jobs/{address}"))):
                found = re.search(r'rel="next" href="([^"]*)"', answer.content.decode())
                assert found
                address, steps = found[1].replace("&amp;", "&"), steps + 1
            assert (shown, steps) == ([little_farm.job.pk], 2)


class TestTime:
    @pytest.fixture
    def days(self, little_farm: Farm) -> dict[str, int]:
        """Jobs, each submitted a day before the next."""
        made = {}
        farm.pass_time(little_farm.job, 10 * 86_400)
        for back, name in ((3, "sky"), (2, "loud"), (1, "quiet"), (0, "new")):
            job = operations.submit("chat", {}, owner=little_farm.ada)
            farm.pass_time(job, back * 86_400)
            made[name] = job.pk
        return made

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ({"age": "hour"}, ["new"]),
            ({"age": "week"}, ["new", "quiet", "loud", "sky"]),
            ({"since": 2.5}, ["new", "quiet", "loud"]),
            ({"until": 0.5}, ["quiet", "loud", "sky"]),
            ({"since": 2.5, "until": 1.5}, ["loud"]),
            ({"since": 1.5, "age": "week"}, ["new", "quiet"]),
        ],
    )
    def test_bounds_when_a_job_was_submitted(
        self, browse: Browse, little_farm: Farm, days: dict[str, int], query: dict[str, Any], names: list[str]
    ) -> None:
        now = farm.now()
        given = {
            name: value if isinstance(value, str) else f"{now - timedelta(days=value):%Y-%m-%dT%H:%M}"
            for name, value in query.items()
        }
        shown = _shown(browse(little_farm.oscar).get(f"/jobs/?{urlencode(given)}"))
        assert names == [name for pk in shown for name, number in days.items() if pk == number]

    def test_that_is_none_is_refused_and_left_out(self, browse: Browse, little_farm: Farm) -> None:
        answer = browse(little_farm.oscar).get("/jobs/?since=yesterday&age=century")
        assert (answer.status_code, _shown(answer)) == (422, [little_farm.job.pk])
        assert "Enter a date and a time, like" in answer.content.decode()


class TestGroup:
    def test_shows_its_jobs_alone(self, browse: Browse, little_farm: Farm, jobs: dict[str, int]) -> None:
        client = browse(little_farm.oscar)
        assert _shown(client.get("/jobs/?group=club")) == [jobs["quiet"]]
        assert _shown(client.get("/jobs/?group=nobody")) == []
        assert _shown(browse(little_farm.ada).get("/jobs/?group=club")) == []


class TestMany:
    def test_that_wait_are_found_behind_many_that_ended(
        self, browse: Browse, little_farm: Farm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lists, "SCAN_LIMIT", 5)
        for job in farm.submit(20, "image"):
            operations.cancel(job.pk, by=None)
        client = browse(little_farm.oscar)
        assert _shown(client.get("/jobs/?status=pending")) == [little_farm.job.pk]
        monkeypatch.setattr(lists, "MOST_LIVE", 0)
        assert _shown(client.get("/jobs/?status=pending")) == [little_farm.job.pk]

    def test_of_ones_own_are_found_behind_many_of_others(
        self, browse: Browse, little_farm: Farm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lists, "SCAN_LIMIT", 5)
        farm.submit(30, "image", owner=little_farm.eve)
        assert _shown(browse(little_farm.ada).get("/jobs/?kind=chat")) == [little_farm.job.pk]

    def test_stay_narrowed_on_the_next_page(self, browse: Browse, little_farm: Farm) -> None:
        farm.submit(lists.PAGE + 1, "image", owner=little_farm.eve)
        answer = browse(little_farm.oscar).get("/jobs/?text=n&age=day&kind=image")
        found = re.search(r'rel="next" href="([^"]*)"', answer.content.decode())
        assert found
        assert all(part in found[1] for part in ("text=n", "age=day", "kind=image", "before="))


class TestSearch:
    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("prompt:light", ["loud"]),
            ("prompt:LIGHT", ["loud"]),
            ("text:größe prompt:light", []),
            ("deep.er:needle", ["new"]),
            ("deep:needle", ["new"]),  # what the key holds, as JSON
            ("prompt:needle", []),
            ("text:42 größe", []),  # a number is the whole value
            ('text:"42 %" größe', ["quiet"]),
        ],
    )
    def test_of_a_key_is_found_in_its_value(
        self, browse: Browse, little_farm: Farm, jobs: dict[str, int], text: str, names: list[str]
    ) -> None:
        shown = _shown(browse(little_farm.oscar).get(f"/jobs/?{urlencode({'text': text})}"))
        assert names == [name for pk in shown for name, number in jobs.items() if pk == number]

    def test_is_found_in_results(self, browse: Browse, little_farm: Farm) -> None:
        farm.succeed(little_farm.worker, farm.claim_one(little_farm.worker), {"answer": "Rayleigh scattering"})
        assert _shown(browse(little_farm.ada).get("/jobs/?text=rayleigh")) == [little_farm.job.pk]


class TestSingleJobs:
    def test_are_listed_by_their_ids(self, browse: Browse, little_farm: Farm, jobs: dict[str, int]) -> None:
        ids = f"{jobs['loud']},{jobs['new']}"
        assert _shown(browse(little_farm.oscar).get(f"/jobs/?ids={ids}")) == [jobs["new"], jobs["loud"]]
        assert _shown(browse(little_farm.eve).get(f"/jobs/?ids={ids}")) == []

    @pytest.mark.parametrize("ids", ["x", "7,,8", "7;8", "-1"])
    def test_that_are_no_ids_are_refused(self, browse: Browse, little_farm: Farm, ids: str) -> None:
        assert browse(little_farm.ada).get("/jobs/", {"ids": ids}).status_code == 422
