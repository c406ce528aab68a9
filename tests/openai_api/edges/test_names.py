"""Aliases, fallbacks and rules of calls, as OpenAI's own client meets them."""

import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import openai
import pytest
from django.db.models import F

from accounts.models import ApiToken
from jobs import operations as jobs
from jobs.models import Job, Live
from metering.models import Model, Reading
from openai_api.models import Alias, CallRule, Fallback
from openai_api.operations import names
from tests import farm
from tests.effort import turn
from tests.openai_api import model_server
from tests.openai_api.edges.conftest import Working, process_of
from tests.openai_api.model_server import ModelServer, Script, completion, streamed, whole
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
HELLO: Any = [{"role": "user", "content": "Say hello."}]


@pytest.fixture(autouse=True)
def decided() -> None:
    """Nothing is remembered of the test before."""
    names.forget()


@pytest.fixture
def second() -> Iterator[ModelServer]:
    """Another model server, with the model `small`."""
    with model_server.serving("small") as running:
        yield running


def alias(client: openai.OpenAI, *models: tuple[str, float], is_only_way: bool = False) -> None:
    """Make the alias `gpt`, and wait until the server knows it."""
    Alias.objects.bulk_create(
        Alias(name="gpt", model=model, after_s=after_s, is_only_way=is_only_way and model == "small")
        for model, after_s in models
    )
    names.forget()
    farm.until(lambda: "gpt" in [each.id for each in client.models.list()], what="the alias")


@contextlib.contextmanager
def process(server: Server, model: ModelServer, *queues: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """`jobfarm_worker --handler openai` as a process of its own, with a key for these queues."""
    _, key = jobs.create_worker("-".join(queues), queues=queues)
    with process_of(server, model, key, **environment) as running:
        yield running


def listed(client: openai.OpenAI) -> list[str]:
    return [each.id for each in client.models.list()]


def let_wait(job: Job, seconds: float) -> None:
    """Let the job have waited for so much longer, and the janitor look."""
    ago = timedelta(seconds=seconds)
    Live.objects.filter(pk=job.pk).update(run_at=F("run_at") - ago)
    Fallback.objects.filter(pk=job.pk).update(due_at=F("due_at") - ago)
    jobs.tend_lanes()


class TestAnAlias:
    def test_is_listed_shown_called_and_said_who_answered(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [whole(**completion("Hello.")), streamed("Hel", "lo.")]
        with working():
            alias(client, ("tiny", 0))
            assert listed(client) == ["gpt", "tiny"]
            assert client.models.retrieve("gpt").id == "gpt"
            raw = client.chat.completions.with_raw_response.create(model="gpt", messages=HELLO)
            assert (raw.headers["x-model"], raw.parse().choices[0].message.content) == ("tiny", "Hello.")
            stream = client.chat.completions.with_raw_response.create(model="gpt", messages=HELLO, stream=True)
            assert stream.headers["x-model"] == "tiny"
            assert (
                "".join(chunk.choices[0].delta.content or "" for chunk in stream.parse() if chunk.choices) == "Hello."
            )
        assert [request["model"] for request in model.requests] == ["tiny", "tiny"]
        job = Job.objects.whole().first()
        assert job is not None
        assert (job.payload["alias"], job.payload["body"]["model"], job.queue) == ("gpt", "tiny", "openai.tiny")

    @pytest.mark.parametrize("is_stream", turn([False, True], of=2))
    def test_whose_first_model_is_busy_is_answered_by_the_next_by_a_provider_with_a_key_of_its_own(
        self,
        client: openai.OpenAI,
        model: ModelServer,
        second: ModelServer,
        working: Working,
        server: Server,
        is_stream: bool,
    ) -> None:
        """Its price is the provider's, and the job holds no secret."""
        Model.objects.create(name="small", price_in=1_000_000)
        busy = threading.Event()
        model.scripts = [Script([busy, *whole(**completion("Late.")).steps], headers=model_server.JSON)]
        second.scripts = [streamed("Hel", "lo.") if is_stream else whole(**completion("Hello."))]
        provider = process(server, second, "openai.small", JOBFARM_LLM_KEY="sk-secret")
        with working(), provider, ThreadPoolExecutor(2) as pool:
            farm.until(lambda: listed(client) == ["small", "tiny"], what="both models")
            alias(client, ("tiny", 0), ("small", 20), is_only_way=True)
            assert listed(client) == ["gpt", "tiny"]
            with pytest.raises(openai.NotFoundError):
                client.chat.completions.create(model="small", messages=HELLO)
            first = pool.submit(client.chat.completions.create, model="tiny", messages=HELLO)
            farm.until(lambda: model.requests, what="the first question")
            called = pool.submit(_called, client, is_stream)
            job = farm.until(lambda: Job.objects.waiting().first(), what="the call that waits")
            assert job is not None
            let_wait(job, 21)
            assert called.result(30) == ("small", "Hello.")
            busy.set()
            assert first.result(30).choices[0].message.content == "Late."
        assert [request["model"] for request in second.requests] == ["small"]
        assert second.headers[-1]["authorization"] == "Bearer sk-secret"
        stored = Job.objects.whole().get(pk=job.pk)
        assert "sk-secret" not in json.dumps([stored.payload, stored.result])
        assert stored.queue == "openai.small"
        reading = Reading.objects.get(job_id=job.pk)
        assert (reading.model, reading.cost) == ("small", 3)


def _called(client: openai.OpenAI, is_stream: bool) -> tuple[str, str]:
    """Which model answered, and what."""
    raw = client.chat.completions.with_raw_response.create(model="gpt", messages=HELLO, stream=is_stream)
    answer: Any = raw.parse()
    if not is_stream:
        return raw.headers["x-model"], answer.choices[0].message.content
    return raw.headers["x-model"], "".join(each.choices[0].delta.content or "" for each in answer if each.choices)


class TestAModelWhoseOnlyWorkerRestarts:
    def test_keeps_calls_until_it_is_there_again(
        self, client: openai.OpenAI, model: ModelServer, server: Server
    ) -> None:
        _, key = jobs.create_worker("only", queues=["openai"])
        with process_of(server, model, key) as worker:
            farm.until(lambda: listed(client) == ["tiny"], what="the model")
            worker.send_signal(signal.SIGTERM)
            worker.wait(30)
        assert listed(client) == []
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(client.chat.completions.create, model="tiny", messages=HELLO)
            farm.until(lambda: Job.objects.waiting().count() == 1, what="the call that waits")
            model.scripts = [whole(**completion("Hello."))]
            with process_of(server, model, key):
                assert call.result(30).choices[0].message.content == "Hello."


class TestRulesOfAToken:
    def test_bound_requests_and_tokens_a_minute_in_openais_headers(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.answer = lambda body: streamed("Hello.") if body.get("stream") else whole(**completion("Hello."))
        with working():
            headers = _headers(client, max_tokens=10)
            assert headers["x-ratelimit-limit-requests"] == "600"
            assert "x-ratelimit-limit-tokens" not in headers
            CallRule.objects.create(token=ApiToken.objects.get(), requests_per_minute=3, tokens_per_minute=1000)
            farm.until(lambda: "x-ratelimit-limit-tokens" in _headers(client, max_tokens=10), what="the rule")
            headers = _headers(client, max_tokens=400, stream=True)
            shown = {name.removeprefix("x-ratelimit-"): value for name, value in headers.items() if "ratelimit" in name}
            assert (shown["limit-requests"], shown["remaining-requests"]) == ("3", "1")
            assert (shown["limit-tokens"], 500 < int(shown["remaining-tokens"]) < 600) == ("1000", True)
            assert shown["reset-tokens"].endswith("s")
            with pytest.raises(openai.RateLimitError) as caught:
                _headers(client, max_tokens=900)
            assert caught.value.response.headers["x-ratelimit-remaining-tokens"] == "0"
            assert int(caught.value.response.headers["retry-after"]) > 0
            with pytest.raises(openai.BadRequestError) as too_large:
                _headers(client, max_tokens=5000)
            assert too_large.value.code == "count_exceeds"
            with pytest.raises(openai.RateLimitError) as requests:
                _call_until_refused(client)
            assert requests.value.response.headers["x-ratelimit-limit-requests"] == "3"

    def test_bound_what_it_may_call(
        self, client: openai.OpenAI, http: httpx.Client, model: ModelServer, working: Working
    ) -> None:
        model.models = ["large", "tiny"]
        with working():
            CallRule.objects.create(token=ApiToken.objects.get(), names=["tiny"])
            farm.until(lambda: listed(client) == ["tiny"], what="the rule")
            with pytest.raises(openai.NotFoundError, match="Offered are: tiny"):
                client.chat.completions.create(model="large", messages=HELLO)
            job = http.post(
                str(client.base_url).replace("/v1/", "/api/v1/jobs"),
                json={"kind": "openai", "payload": {"path": "chat/completions", "body": {"model": "large"}}},
            )
        assert (job.status_code, job.json()["param"]) == (400, "kind")
        assert not Job.objects.exists()


def _call_until_refused(client: openai.OpenAI) -> None:
    while True:
        _headers(client, max_tokens=1)


def _headers(client: openai.OpenAI, **options: Any) -> dict[str, str]:
    raw = client.chat.completions.with_raw_response.create(model="tiny", messages=HELLO, **options)
    answer: Any = raw.parse()
    if options.get("stream"):
        list(answer)
    return dict(raw.headers)
