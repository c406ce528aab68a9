"""How many jobs come in: per token and per person, at the API and at the form, and nothing stored beyond."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts import operations as accounts
from jobs import operations
from jobs.models import Job
from ratelimits import operations as limits
from tests import farm
from tests.jobs.limits.integration import sample
from tests.jobs.limits.integration.sample import NO_DEBT, used

pytestmark = pytest.mark.django_db(transaction=True)
FORM = {"prompt": "Why is the sky blue?"}


class Caller:
    """A program with an API token of a person."""

    def __init__(self, user: User, name: str = "laptop") -> None:
        token, key = accounts.create_token(user, name=name)
        self.key = f"token:{token.pk}"
        self._client = Client(headers={"Authorization": f"Bearer {key}"})

    def post(self, path: str, body: Any = None) -> Any:
        """Call the API."""
        return self._client.post(f"/api/v1/{path}", body, content_type="application/json")

    def submit(self) -> Any:
        """Submit one job."""
        return self.post("jobs", {"kind": "plain", "payload": {}})

    def bulk(self, count: int) -> Any:
        """Submit so many at once."""
        return self.post("jobs/bulk", {"jobs": [{"kind": "plain", "payload": {}}] * count})


@pytest.fixture(autouse=True)
def _kinds(db: None) -> None:
    operations.sync()  # the form's own
    farm.kind("plain")


def drained(name: str, key: str, *, but: float = -100) -> None:
    """Leave so many tokens in a limit. Ten or more come in a second: where a test wants none, a hundred are owed."""
    held = limits.get_value(name, key=key).value
    limits.limit(name, key=key, count=held - but, reserve=True)


class TestAToken:
    def test_that_took_all_of_its_own_is_told_when_to_come_back(self, ada: User) -> None:
        mine, other = Caller(ada), Caller(ada, "server")
        drained("submit/token", mine.key)
        refused = mine.submit()
        wait = int(refused.headers["Retry-After"])
        assert refused.status_code == 429
        assert wait in (10, 11)  # a hundred and one at ten a second, less what came in meanwhile
        assert refused.headers["Cache-Control"] == "no-store"
        assert refused.json() == {
            "error": "rate_limited",
            "message": f"Too many requests: try again in {wait} seconds.",
            "retry_after": wait,
        }
        assert Job.objects.count() == 0
        assert other.submit().status_code == 201

    def test_is_refused_for_all_its_persons_other_ones_took(self, ada: User) -> None:
        mine = Caller(ada)
        drained("submit/user", f"user:{ada.pk}")
        assert mine.submit().status_code == 429
        assert (Job.objects.count(), used("submit/token")) == (0, {})

    def test_counts_every_job_of_a_bulk_and_takes_it_whole_or_not_at_all(self, ada: User) -> None:
        mine = Caller(ada)
        assert mine.bulk(3).status_code == 201
        assert used("submit/token") == {mine.key: 3}
        assert used("submit/user") == {f"user:{ada.pk}": 3}
        drained("submit/token", mine.key, but=2)
        assert mine.bulk(900).status_code == 429
        assert (Job.objects.count(), used("submit/user")) == (3, {f"user:{ada.pk}": 3})

    def test_counts_a_job_that_is_tried_again(self, ada: User) -> None:
        mine = Caller(ada)
        [job] = farm.submit(1, "plain", owner=ada)
        operations.cancel(job.pk, by=None)
        assert mine.post(f"jobs/{job.pk}/retry").status_code == 201
        drained("submit/token", mine.key)
        assert mine.post(f"jobs/{job.pk}/retry").status_code == 429
        assert Job.objects.count() == 2

    def test_looks_and_cancels_as_often_as_it_likes(self, ada: User) -> None:
        mine = Caller(ada)
        job = mine.submit().json()["id"]
        drained("submit/token", mine.key)
        drained("submit/user", f"user:{ada.pk}")
        assert mine.post(f"jobs/{job}/cancel").status_code == 200


class TestTheForm:
    @pytest.fixture
    def browser(self, ada: User) -> Client:
        """Ada's browser."""
        client = Client()
        client.force_login(ada)
        return client

    def test_counts_the_person_and_keeps_what_was_typed(self, browser: Client, ada: User) -> None:
        assert browser.post("/jobs/new/?kind=chat", FORM).status_code == 302
        assert (used("submit/user"), used("submit/token")) == ({f"user:{ada.pk}": 1}, {})
        drained("submit/user", f"user:{ada.pk}")
        answer = browser.post("/jobs/new/?kind=chat", FORM)
        assert answer.status_code == 429
        assert answer.headers["Retry-After"] in ("5", "6")
        assert f"Too many requests: try again in {answer.headers['Retry-After']} seconds." in answer.text
        assert FORM["prompt"] in answer.text
        assert Job.objects.count() == 1

    def test_counts_nothing_that_cannot_be_submitted(self, browser: Client) -> None:
        assert browser.post("/jobs/new/?kind=chat", {}).status_code == 422
        assert used("submit/user") == {}

    def test_says_of_a_job_tried_again_that_it_was_too_many(self, browser: Client, ada: User) -> None:
        [job] = farm.submit(1, "plain", owner=ada)
        operations.cancel(job.pk, by=None)
        drained("submit/user", f"user:{ada.pk}")
        answer = browser.post(f"/jobs/{job.pk}/retry/", follow=True)
        assert "Too many requests: try again in" in answer.text
        assert Job.objects.count() == 1


class TestAKindsOwnLimit:
    def test_that_lets_nobody_wait_is_told_like_any_other(self, ada: User) -> None:
        sample.kind("chat-large", limit=NO_DEBT)
        mine = Caller(ada)
        body = {"kind": "chat-large", "payload": {}}
        assert [mine.post("jobs", body).status_code for _ in range(3)] == [201, 201, 429]
        too_many = mine.post("jobs/bulk", {"jobs": [body] * 3})
        assert (too_many.status_code, too_many.json()["error"]) == (422, "count_exceeds")
        assert Job.objects.count() == 2

    def test_is_why_its_job_does_not_run(self, ada: User) -> None:
        sample.kind("paced")
        farm.submit(10, "paced")
        [job] = farm.submit(1, "paced", owner=ada)
        browser = Client()
        browser.force_login(ada)
        [reason, *_] = browser.get(f"/api/v1/jobs/{job.pk}/why").json()["reasons"]
        assert (reason["code"], reason["limit"]) == ("waiting_for_limit", sample.TEN)
        assert 0 < reason["seconds"] <= 11.1
        page = " ".join(browser.get(f"/jobs/{job.pk}/").text.split())
        assert f"It is waiting for the limit {sample.TEN}: it may start" in page
