"""What is refused of Anthropic's Messages API, in its form."""

import threading
from typing import Any

import anthropic
import httpx
import pytest
from django.conf import settings
from django.contrib.auth.models import User

from accounts import operations as accounts
from jobs import limits, operations as jobs
from jobs.models import Job
from ratelimits import operations as ratelimits
from tests import farm
from tests.openai_api.edges.conftest import Working
from tests.openai_api.edges.test_messages import REQUEST
from tests.openai_api.model_server import ModelServer, Script
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


def error_of(answer: httpx.Response) -> tuple[int, str]:
    """Status and type of an error, which is in Anthropic's form."""
    body = answer.json()
    assert set(body) == {"type", "error", "request_id"}, answer.text
    assert (body["type"], body["request_id"]) == ("error", answer.headers["request-id"])
    assert set(body["error"]) == {"type", "message"}
    return answer.status_code, body["error"]["type"]


class TestWhatIsRefused:
    @pytest.mark.parametrize("path", ["messages", "messages/count_tokens"])
    def test_a_model_that_nobody_offers(self, http: httpx.Client, working: Working, path: str) -> None:
        with working():
            answer = http.post(path, json={**REQUEST, "model": "huge"})
        assert error_of(answer) == (404, "not_found_error")
        assert "Offered are: tiny." in answer.json()["error"]["message"]
        assert not Job.objects.exists()

    def test_a_body_that_cannot_be_kept(self, http: httpx.Client) -> None:
        assert error_of(http.post("messages", content=b"{")) == (400, "invalid_request_error")
        assert error_of(http.post("messages", json=[])) == (400, "invalid_request_error")
        large = b'{"model": "tiny", "x": "' + b"x" * 50_000_000 + b'"}'
        assert error_of(http.post("messages", content=large)) == (413, "request_too_large")

    def test_a_body_that_is_too_large_without_its_long_texts(self, http: httpx.Client, working: Working) -> None:
        with working():
            answer = http.post("messages", json={**REQUEST, **{f"x{n}": 12345678 for n in range(60_000)}})
        assert error_of(answer) == (413, "request_too_large")

    def test_a_key_that_is_wrong_missing_or_for_something_else(
        self, server: Server, http: httpx.Client, ada: User
    ) -> None:
        at = f"{server.url}/v1/messages"
        for headers in ({"x-api-key": "jft_wrong"}, {"Authorization": "Bearer jft_wrong"}, {}):
            assert error_of(httpx.post(at, json=REQUEST, headers=headers)) == (401, "authentication_error")
        _, reader = accounts.create_token(ada, name="reads", scopes=["read"])
        assert error_of(httpx.post(at, json=REQUEST, headers={"x-api-key": reader})) == (403, "permission_error")
        assert error_of(http.get("messages/7")) == (404, "not_found_error")
        assert error_of(http.put("messages")) == (405, "invalid_request_error")

    def test_more_than_may_be_submitted_with_a_retry_after(
        self, http: httpx.Client, working: Working, ada: User
    ) -> None:
        capacity = 2 * settings.JOBFARM["SUBMIT_BURST"]
        for _ in range(10):  # ahead of time, since tokens come in while the worker starts
            ratelimits.limit(limits.SUBMIT_USER, key=f"user:{ada.pk}", count=capacity, reserve=True)
        with working():
            answer = http.post("messages", json=REQUEST)
        assert error_of(answer) == (429, "rate_limit_error")
        assert int(answer.headers["retry-after"]) > 0
        assert not Job.objects.exists()

    def test_content_that_a_chat_cannot_say(
        self, claude: anthropic.Anthropic, model: ModelServer, working: Working
    ) -> None:
        picture: Any = {"type": "image", "source": {"type": "file", "file_id": "f"}}
        with working(), pytest.raises(anthropic.BadRequestError, match=r"messages\[0\].content.source") as caught:
            claude.messages.create(model="tiny", max_tokens=9, messages=[{"role": "user", "content": [picture]}])
        assert caught.value.type == "invalid_request_error"
        assert model.requests == []


def test_a_job_that_is_canceled_is_an_error_that_names_it(
    http: httpx.Client, own: ModelServer, working: Working
) -> None:
    own.scripts = [Script([threading.Event()])]
    answers: list[httpx.Response] = []
    with working():
        calling = threading.Thread(target=lambda: answers.append(http.post("messages", json=REQUEST)))
        calling.start()
        job = farm.until(lambda: Job.objects.running().first())
        assert job is not None
        jobs.cancel(job.pk, by=None)
        calling.join(30)
    assert error_of(answers[0]) == (410, "invalid_request_error")
    assert f"Job {job.pk}" in answers[0].json()["error"]["message"]
