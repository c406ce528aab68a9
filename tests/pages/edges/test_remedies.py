"""What would change that a job does not run: told to everybody who may see it, a button or call for who may do it."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from accounts import operations as accounts
from jobs import operations
from jobs.models import Job, Queue
from tests import farm

pytestmark = pytest.mark.django_db
PEOPLE = ("ada", "bob", "root")  # owner, mate, operator


@pytest.fixture
def job() -> Job:
    """Ada's, shared with Bob; due later, in a queue that root paused."""
    farm.kind()
    farm.worker()
    club = Group.objects.create(name="club")
    ada, _ = farm.user("ada", groups=[club]), farm.user("bob", groups=[club])
    operations.pause("work", by=farm.user("root", is_staff=True, is_superuser=True))
    [job] = farm.submit(1, owner=ada, group=club, run_at=farm.now() + timedelta(hours=1))
    return job


def _browser(who: str, *, enforce_csrf_checks: bool = False) -> Client:
    client = Client(enforce_csrf_checks=enforce_csrf_checks)
    client.force_login(User.objects.get(username=who))
    return client


def _page(job: Job, who: str) -> str:
    return _browser(who).get(f"/jobs/{job.pk}/").content.decode()


class TestThePage:
    def test_names_what_would_change_each_reason(self, job: Job) -> None:
        page = _page(job, "bob")
        assert 'data-remedies="cancel resume_queue run_now"' in page
        assert "Resume the queue work" in page

    @pytest.mark.parametrize(("who", "runs", "resumes"), [("ada", 1, 0), ("bob", 0, 0), ("root", 1, 1)])
    def test_has_buttons_for_those_who_may(self, job: Job, who: str, runs: int, resumes: int) -> None:
        page = _page(job, who)
        assert page.count(f'id="run-now" method="post" action="/jobs/{job.pk}/run-now/"') == runs
        assert page.count('id="resume-queue" method="post"') == resumes

    def test_tells_who_paused_the_queue_to_operators_alone(self, job: Job) -> None:
        assert ["By root." in _page(job, who) for who in PEOPLE] == [False, False, True]

    def test_leads_operators_to_the_queue_and_everybody_to_a_new_worker(self, job: Job) -> None:
        operations.resume("work")
        operations.run_now(job.pk, by=None)
        operations.set_ceiling("work", 0)
        assert ['href="/queues/work/">Raise' in _page(job, who) for who in PEOPLE] == [False, False, True]
        operations.set_ceiling("work", None)
        assert 'href="/workers/connect/?queue=work">Add a worker' in _page(job, "ada")


class TestItsButtons:
    def test_run_it_now(self, job: Job) -> None:
        answer = _browser("ada").post(f"/jobs/{job.pk}/run-now/")
        job.refresh_from_db()
        assert (answer.status_code, job.run_at <= farm.now()) == (302, True)

    def test_say_why_not(self, job: Job) -> None:
        operations.cancel(job.pk, by=None)
        page = _browser("ada").post(f"/jobs/{job.pk}/run-now/", follow=True).content.decode()
        assert "The job is no longer pending" in page

    def test_resume_the_queue_for_operators_alone(self, job: Job) -> None:
        assert [_browser(who).post("/queues/work/resume/").status_code for who in PEOPLE] == [403, 403, 302]
        assert Queue.objects.get(pk="work").paused_at is None

    def test_want_the_token_of_the_page(self, job: Job) -> None:
        answer = _browser("ada", enforce_csrf_checks=True).post(f"/jobs/{job.pk}/run-now/")
        job.refresh_from_db()
        assert (answer.status_code, job.run_at > farm.now()) == (403, True)


class TestTheApi:
    @pytest.mark.parametrize(("who", "path"), [("ada", True), ("bob", False), ("root", True)])
    def test_gives_the_call_to_who_may_make_it(self, job: Job, who: str, path: bool) -> None:
        _, token = accounts.create_token(User.objects.get(username=who), name="test")
        headers = {"Authorization": f"Bearer {token}"}
        not_due, paused = Client().get(f"/api/v1/jobs/{job.pk}/why", headers=headers).json()["reasons"]
        assert [remedy["code"] for remedy in not_due["remedies"]] == ["run_now", "cancel"]
        call = not_due["remedies"][0]
        assert (call["method"], call["path"]) == (("POST", f"/api/v1/jobs/{job.pk}/run_now") if path else (None, None))
        assert paused["remedies"] == [
            {"code": "resume_queue", "label": "Resume the queue work", "method": None, "path": None}
        ]
        assert paused.get("by") == ("root" if who == "root" else None)
        assert Client().post(f"/api/v1/jobs/{job.pk}/run_now", headers=headers).status_code == (200 if path else 403)
