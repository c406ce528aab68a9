"""A call with a key and no cookie takes a shorter way (jobs.api.at_once): it is answered as by the longer one."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from accounts import operations as accounts
from jobs import operations
from jobs.models import Job
from jobs.operations.queues import create_kind
from tests import farm
from tests.looped import looped

pytestmark = pytest.mark.django_db
JSON = "application/json"
WORKER = "/api/v1/worker"
FINISH = f"{WORKER}/jobs/7/finish"
# Method, path, type and body; of whom: worker, token, or a key that is nobody's.
CALLS = [
    ("POST", f"{WORKER}/claim", JSON, '{"limit": 1}', "worker"),
    ("POST", f"{WORKER}/claim", JSON, '{"limit": 0}', "worker"),
    ("POST", f"{WORKER}/claim", JSON, '{"limit": 1, "limit": 2}', "worker"),
    ("POST", f"{WORKER}/claim", JSON, '{"queues": ["nowhere"]}', "worker"),
    ("POST", f"{WORKER}/claim", JSON, '{"limit": 1}', "token"),
    ("POST", f"{WORKER}/claim", JSON, '{"limit": 1}', "nobody"),
    ("POST", f"{WORKER}/claim", JSON, '{"limit": 0}', "nobody"),
    ("POST", f"{WORKER}/claim", JSON, "", "worker"),
    ("POST", f"{WORKER}/claim", JSON, "\x00{", "worker"),
    ("POST", f"{WORKER}/claim", "text/plain", '{"limit": 1}', "worker"),
    ("GET", f"{WORKER}/claim", JSON, "", "worker"),
    ("POST", f"{WORKER}/claim/", JSON, "{}", "worker"),
    ("POST", FINISH, JSON, '{"lease": "1-00", "outcome": "success"}', "worker"),
    ("POST", FINISH, JSON, f'{{"lease": "1-{"0" * 32}", "outcome": "success", "claim_next": 1}}', "worker"),
    ("POST", FINISH, JSON, '{"lease": "1-00", "outcome": "lost"}', "worker"),
    ("POST", FINISH, JSON, '{"lease": 1, "outcome": "success", "more": 1}', "worker"),
    ("POST", f"{WORKER}/jobs/0/finish", JSON, '{"lease": "1-00", "outcome": "success"}', "worker"),
    ("POST", f"{WORKER}/jobs/0/finish", JSON, f'{{"lease": "1-{"0" * 32}", "outcome": "success"}}', "worker"),
    ("POST", f"{WORKER}/jobs/007/release", JSON, f'{{"lease": "1-{"0" * 32}"}}', "worker"),
    ("POST", f"{WORKER}/jobs/9{'0' * 18}/finish", JSON, '{"lease": "1-00", "outcome": "success"}', "worker"),
    ("POST", f"{WORKER}/jobs/7/nothing", JSON, "{}", "worker"),
    ("POST", f"{WORKER}/jobs/7/release", JSON, '{"lease": "1-00"}', "worker"),
    ("POST", "/api/v1/jobs", JSON, '{"kind": "work", "payload": {"n": 1}}', "token"),
    ("POST", "/api/v1/jobs", JSON, '{"kind": "unheard-of", "payload": 1}', "token"),
    ("POST", "/api/v1/jobs", JSON, '{"kind": "work"}', "token"),
    ("POST", "/api/v1/jobs", JSON, '{"kind": "work", "payload": 1}', "worker"),
    ("POST", "/api/v1/jobs", JSON, '{"kind": "work", "payload": 1}', "nobody"),
    ("POST", "/api/v1/jobs", JSON, '{"kind": "work", "payload": 1}', "read"),
    ("GET", "/api/v1/jobs", JSON, "", "token"),
    ("GET", "/api/v1/jobs?token=jfv_none", JSON, "", "token"),
    ("DELETE", "/api/v1/jobs", JSON, "", "token"),
    ("GET", "/api/v1/nothing", JSON, "", "token"),
    ("GET", "/v1/models", JSON, "", "token"),
    ("GET", "/v1/nothing", JSON, "", "token"),
]  # fmt: skip


@pytest.fixture
def keys() -> dict[str, str]:
    create_kind(operations.Kind(name="work", queue="work"))
    ada = User.objects.create_user("ada", password=farm.PASSWORD)
    _, worker = operations.create_worker("w1", queues=["work"])
    _, token = accounts.create_token(ada, name="all")
    _, read = accounts.create_token(ada, name="read", scopes=["read"])
    return {"worker": worker, "token": token, "read": read, "nobody": "jfw_nobody"}


def _answer(call: tuple[str, str, str, str, str], keys: dict[str, str], *, cookie: str) -> tuple[Any, ...]:
    method, path, content_type, body, whose = call
    browser = Client(raise_request_exception=False)
    if cookie:
        browser.cookies["theme"] = cookie
    headers = {"Authorization": f"Bearer {keys[whose]}"}
    answer = browser.generic(method, path, body, content_type=content_type, headers=headers)
    text = answer.content
    if answer.status_code == 201:  # another job each time
        [job] = Job.objects.order_by("-pk")[:1]
        text = text.replace(b'"id":%d' % job.pk, b"").replace(job.created_at.isoformat().encode()[:26], b"")
        answer.headers["Content-Length"] = ""
    return answer.status_code, text, {**answer.headers, "Vary": ""}


@looped("call", CALLS, ids=" ".join, rolled_back=True)
def test_is_answered_as_with_a_cookie(keys: dict[str, str], call: tuple[str, str, str, str, str]) -> None:
    assert _answer(call, keys, cookie="") == _answer(call, keys, cookie="dark")


def test_of_who_came_without_tls_is_sent_to_it(keys: dict[str, str], settings: Settings) -> None:
    settings.SECURE_SSL_REDIRECT = True
    status, _, headers = _answer(CALLS[0], keys, cookie="")
    assert (status, headers["Location"]) == (301, f"https://testserver{WORKER}/claim")


def test_to_a_foreign_host_is_refused(keys: dict[str, str], settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["farm.example.org"]
    status, body, _ = _answer(CALLS[0], keys, cookie="")
    assert (status, b"bad_request" in body) == (400, True)


def test_passes_nothing_that_is_for_browsers(keys: dict[str, str]) -> None:
    browser = Client(headers={"Authorization": f"Bearer {keys['token']}"})
    assert not hasattr(browser.get("/api/v1/jobs").wsgi_request, "session")
    browser.cookies["theme"] = "dark"
    assert hasattr(browser.get("/api/v1/jobs").wsgi_request, "session")
