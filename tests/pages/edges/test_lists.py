"""Lists: pages by key, filters, and a cost that does not grow with the farm."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from jobs import operations
from jobs.models import Job
from jobs.queries import lists
from tests import farm
from tests.looped import looped
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db

MaxQueries = Callable[..., Any]


def _shown(answer: Any) -> list[int]:
    """The jobs of a page, in their order."""
    return [int(number) for number in re.findall(r'data-key="j(\d+)"', answer.content.decode())]


def _older(answer: Any) -> str | None:
    found = re.search(r'rel="next" href="([^"]*)"', answer.content.decode())
    return found and found[1].replace("&amp;", "&")


class TestPages:
    def test_walk_through_every_job_once_newest_first(self, browse: Browse, little_farm: Farm) -> None:
        jobs = farm.submit(2 * lists.PAGE + 7, "image", owner=little_farm.eve)
        client, seen, lengths = browse(little_farm.eve), list[int](), list[int]()
        address: str | None = ""
        while address is not None:
            answer = client.get(f"/jobs/{address}")
            lengths.append(len(_shown(answer)))
            seen += _shown(answer)
            address = _older(answer)
        assert lengths == [lists.PAGE, lists.PAGE, 7]
        assert sorted((job.pk for job in jobs), reverse=True) == seen

    def test_new_jobs_do_not_shift_an_older_page(self, browse: Browse, little_farm: Farm) -> None:
        farm.submit(lists.PAGE + 5, "image", owner=little_farm.eve)
        client = browse(little_farm.eve)
        older = _older(client.get("/jobs/"))
        before = _shown(client.get(f"/jobs/{older}"))
        farm.submit(20, "image", owner=little_farm.eve)
        assert before == _shown(client.get(f"/jobs/{older}"))

    def test_show_own_and_shared_jobs_each_once(self, browse: Browse, little_farm: Farm) -> None:
        group = little_farm.ada.groups.get()
        own = operations.submit("chat", {}, owner=little_farm.bob)
        both = operations.submit("chat", {}, owner=little_farm.bob, group=group)
        second = Group.objects.create(name="second")
        little_farm.bob.groups.add(second)
        operations.submit("chat", {}, owner=little_farm.eve)
        shown = _shown(browse(little_farm.bob).get("/jobs/"))
        assert [both.pk, own.pk, little_farm.job.pk] == shown


class TestFilters:
    @pytest.fixture
    def jobs(self, little_farm: Farm) -> dict[str, int]:
        """One job of each sort."""
        failed = operations.submit("image", {}, owner=little_farm.ada)
        operations.cancel(little_farm.job.pk, by=None)
        claimed = farm.claim_one(little_farm.worker)
        farm.fail(little_farm.worker, claimed, retryable=False)
        eves = operations.submit("chat", {}, owner=little_farm.eve)
        running = operations.submit("chat", {}, owner=little_farm.ada, priority=5)
        farm.claim_one(little_farm.worker)
        return {"canceled": little_farm.job.pk, "failed": failed.pk, "eves": eves.pk, "running": running.pk}

    @looped(
        ("query", "names"),
        [
            ("", ["running", "eves", "failed", "canceled"]),
            ("status=failed", ["failed"]),
            ("status=in_progress", ["running"]),
            ("kind=image", ["failed"]),
            ("queue=chat", ["running", "eves", "canceled"]),
            ("queue=chat&status=canceled", ["canceled"]),
            ("worker=w1", ["running", "failed"]),
            ("worker=w", []),
            ("owner=eve", ["eves"]),
            ("owner=nobody", []),
        ],
        rolled_back=True,
    )
    def test_narrow_what_is_shown(
        self, browse: Browse, little_farm: Farm, jobs: dict[str, int], query: str, names: list[str]
    ) -> None:
        shown = _shown(browse(little_farm.oscar).get(f"/jobs/?{query}"))
        assert names == [name for number in shown for name, pk in jobs.items() if pk == number]

    def test_only_mine(self, browse: Browse, little_farm: Farm, jobs: dict[str, int]) -> None:
        bobs = operations.submit("chat", {}, owner=little_farm.bob)
        client = browse(little_farm.bob)
        assert {bobs.pk, jobs["canceled"]} == set(_shown(client.get("/jobs/")))
        mine = client.get("/jobs/?owner=bob")
        assert [bobs.pk] == _shown(mine)
        assert 'value="bob" id="filter-owner" checked' in mine.content.decode()

    def test_anothers_name_shows_no_more_than_one_may_see(
        self, browse: Browse, little_farm: Farm, jobs: dict[str, int]
    ) -> None:
        assert _shown(browse(little_farm.bob).get("/jobs/?owner=eve")) == []

    def test_stay_on_the_next_page(self, browse: Browse, little_farm: Farm) -> None:
        farm.submit(lists.PAGE + 1, "image", owner=little_farm.eve)
        farm.submit(3, "chat", owner=little_farm.eve)
        client = browse(little_farm.oscar)
        older = _older(client.get("/jobs/?kind=image&status=pending&worker="))
        assert older is not None
        assert ("status=pending" in older, "kind=image" in older) == (True, True)
        assert len(_shown(client.get(f"/jobs/{older}"))) == 1

    def test_a_rare_kind_is_looked_for_in_bounded_steps(
        self, browse: Browse, little_farm: Farm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lists, "SCAN_LIMIT", 10)
        rare = operations.submit("image", {}, owner=little_farm.eve)
        farm.submit(25, "chat", owner=little_farm.eve)
        client, steps, answer = (browse(little_farm.oscar), 1, browse(little_farm.oscar).get("/jobs/?kind=image"))
        while not _shown(answer):
            steps += 1
            answer = client.get(f"/jobs/{_older(answer)}")
        assert ([rare.pk], 3) == (_shown(answer), steps)


class TestCost:
    """Queries of a page: a number that does not grow. Sessions, rights and every live part are counted."""

    @pytest.fixture
    def busy(self, little_farm: Farm) -> Job:
        """Many of everything; the job is running after three failures, with files and output."""
        operations.revoke(little_farm.worker)
        job = operations.submit("image", {"prompt": "x"}, owner=little_farm.ada, max_attempts=9)
        by = farm.worker("busy", "image")
        for _ in range(3):
            farm.pass_time(job, 3600)
            farm.fail(by, farm.claim_one(by))
        farm.pass_time(job, 3600)
        claimed = farm.claim_one(by)
        for seq in range(20):
            operations.write_output(by, job.pk, claimed.lease, seq=seq, text="line\n")
        farm.submit(80, "chat", owner=little_farm.ada)
        chatter = farm.worker("chatter", "chat")
        ended = operations.claim(chatter, limit=25)
        for each in ended:
            farm.succeed(chatter, each)
        for n in range(10):
            farm.claim_one(farm.worker(f"w{n}", "chat", owner=little_farm.ada))
        return job

    @pytest.mark.parametrize(
        ("path", "most", "people"),
        [
            ("/", 22, ("ada",)),
            ("/", 63, ("oscar",)),  # where this process remembers nothing of its checks and of its first day
            ("/jobs/", 14, ("ada", "oscar")),
            ("/jobs/?text=x&age=day&status=failed", 22, ("ada", "oscar")),
            ("/jobs/{job}/", 32, ("ada", "oscar")),
            ("/queues/", 9, ("ada", "oscar")),
            ("/workers/", 10, ("ada", "oscar")),
            ("/admin/jobs/job/", 14, ("oscar",)),
        ],
    )
    def test_is_bounded(
        self,
        browse: Browse,
        little_farm: Farm,
        busy: Job,
        django_assert_max_num_queries: MaxQueries,
        path: str,
        most: int,
        people: tuple[str, ...],
    ) -> None:
        for who in people:
            client = browse(little_farm.person(who))
            with django_assert_max_num_queries(most):
                assert client.get(path.format(job=busy.pk)).status_code == 200


class TestNumbers:
    @pytest.mark.parametrize("text", ["{}", "%23{}", "+%23{}+"])
    def test_open_the_job(self, browse: Browse, little_farm: Farm, text: str) -> None:
        answer = browse(little_farm.bob).get(f"/jobs/?status=failed&text={text.format(little_farm.job.pk)}")
        assert (answer.status_code, answer.headers["Location"]) == (302, f"/jobs/{little_farm.job.pk}/")

    def test_of_jobs_that_one_may_not_see_are_looked_for_as_texts(self, browse: Browse, little_farm: Farm) -> None:
        own = operations.submit("chat", {"prompt": f"What was {little_farm.job.pk}?"}, owner=little_farm.eve)
        assert _shown(browse(little_farm.eve).get(f"/jobs/?text={little_farm.job.pk}")) == [own.pk]

    def test_with_their_sign_are_found_in_the_administration(self, browse: Browse, little_farm: Farm) -> None:
        farm.fail(little_farm.worker, farm.claim_one(little_farm.worker))
        boss = browse(User.objects.create_superuser("boss"))
        assert boss.get(f"/admin/jobs/attempt/?q=%23{little_farm.job.pk}").context["cl"].result_count == 1
        answer = boss.get(f"/admin/jobs/job/?q=%23{little_farm.job.pk}")
        assert answer.headers["Location"] == f"/jobs/{little_farm.job.pk}/"
        assert boss.get("/admin/jobs/job/?q=999").status_code == 200
