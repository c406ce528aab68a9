"""The other calls, the list of models, and everything that is refused."""

import base64
import io
import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from PIL import Image

from accounts import operations as accounts
from jobs import limits, operations as jobs
from jobs.models import Job, Queue, Worker
from metering import operations as metering
from ratelimits import operations as ratelimits
from tests import farm
from tests.openai_api import model_server
from tests.openai_api.edges.conftest import Working, offers
from tests.openai_api.model_server import ModelServer, Script, completion, whole
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
HELLO: Any = [{"role": "user", "content": "Say hello."}]
CALLS = ["chat/completions", "completions", "embeddings", "images/generations"]


class TestOtherCalls:
    def test_completions_stream_too(self, client: openai.OpenAI, model: ModelServer, working: Working) -> None:
        head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "tiny"}
        choices = [{"index": 0, "text": text, "finish_reason": end} for text, end in [("On", None), ("ce.", "stop")]]
        events = [f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode() for choice in choices]
        model.scripts = [Script([*events, b"data: [DONE]\n\n"])]
        with working():
            chunks = list(client.completions.create(model="tiny", prompt="Once", stream=True))
        assert [chunk.choices[0].text for chunk in chunks] == ["On", "ce."]
        farm.until(lambda: Job.objects.get().status == "success")
        assert Job.objects.get().result == {
            **head, "choices": [{"index": 0, "text": "Once.", "finish_reason": "stop"}]
        }  # fmt: skip

    def test_embeddings_larger_than_a_result_come_back_whole(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        vector = [n / 7 for n in range(40_000)]
        data = [{"object": "embedding", "index": 0, "embedding": vector}]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        model.scripts = [whole(object="list", data=data, model="tiny", usage=usage)]
        with working():
            answer = client.embeddings.create(model="tiny", input="word", encoding_format="float")
        assert answer.data[0].embedding == vector
        job = Job.objects.get()
        assert job.result == {"answer_file": "answer.json", "usage": usage}
        used = metering.of_job(job.pk)
        assert used is not None
        assert (used.model, used.tokens_in, used.tokens_out) == ("tiny", 1, 0)

    def test_rankings_come_back_as_the_server_has_them(
        self, http: httpx.Client, model: ModelServer, working: Working
    ) -> None:
        """As Jina, vLLM and Cohere answer."""
        of_servers: list[dict[str, Any]] = [
            {"usage": {"total_tokens": 9}},
            {"usage": {"prompt_tokens": 9, "total_tokens": 9}},
            {"id": "r", "meta": {"billed_units": {"search_units": 1}}},
        ]
        results = [{"index": 1, "relevance_score": 0.9, "document": {"text": "A sea."}}]
        model.scripts = [whole(results=results, **more) for more in of_servers]
        body = {"model": "tiny", "query": "water", "documents": ["A hill.", {"text": "A sea."}], "top_n": 1}
        with working():
            ranked = [http.post("rerank", json=body) for _ in of_servers]
        assert [answer.json() for answer in ranked] == [{"results": results, **more} for more in of_servers]
        assert model.requests == [{"path": "/v1/rerank", **body}] * 3
        used = [metering.of_job(int(answer.headers["x-job-id"])) for answer in ranked]
        assert [each and (each.model, each.tokens_in, each.tokens_out) for each in used] == [
            ("tiny", 9, 0), ("tiny", 9, 0), ("tiny", 0, 0),
        ]  # fmt: skip

    def test_images_come_back_and_are_files_of_the_job(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        png = io.BytesIO()
        Image.new("RGB", (8, 4), (200, 20, 20)).save(png, format="PNG")
        model.scripts = [whole(created=1, data=[{"b64_json": base64.b64encode(png.getvalue()).decode()}])]
        with working():
            answer = client.images.generate(model="tiny", prompt="a red sea")
        [picture] = answer.data or []
        assert base64.b64decode(picture.b64_json or "") == png.getvalue()
        [file] = Job.objects.get().files.all()
        assert (file.name, file.size) == ("image-0.png", len(png.getvalue()))

    def test_curl_reads_a_stream(self, server: Server, model: ModelServer, working: Working, key: str) -> None:
        model.scripts = [model_server.streamed("Hel", "lo.")]
        body = json.dumps({"model": "tiny", "messages": HELLO, "stream": True})
        command = ["curl", "-sSN", f"{server.url}/v1/chat/completions", "-H", f"Authorization: Bearer {key}"]
        with working():
            output = subprocess.run([*command, "-d", body], capture_output=True, text=True, timeout=30, check=True)
        lines = [line for line in output.stdout.splitlines() if line.startswith("data: ")]
        assert len(lines) == 5
        assert lines[-1] == "data: [DONE]"


class TestModels:
    def test_are_those_that_a_live_worker_announces_and_follow_it(
        self, client: openai.OpenAI, model: ModelServer, working: Working, ada: User
    ) -> None:
        assert client.models.list().data == []
        model.models = ["Org/Large:8b", "tiny"]
        with working():
            assert [each.id for each in client.models.list()] == ["Org/Large:8b", "tiny"]
            assert client.models.retrieve("Org/Large:8b").owned_by == "jobfarm"
            worker = Worker.objects.get()
            assert worker.queues == ["openai", jobs.queue_of_model("Org/Large:8b"), "openai.tiny"]
            jobs.drain(worker)
            assert client.models.list().data == []

    def test_are_listed_no_more_when_their_worker_ended_and_calls_of_them_wait_for_the_next(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [whole(**completion("Hello again."))]
        with working():
            assert [each.id for each in client.models.list()] == ["tiny"]
        assert client.models.list().data == []
        with ThreadPoolExecutor(1) as pool:
            calling = pool.submit(client.chat.completions.create, model="tiny", messages=HELLO)
            farm.until(Job.objects.exists, what="the call")
            with working("again"):
                assert [each.id for each in client.models.list()] == ["tiny"]
                assert calling.result(30).choices[0].message.content == "Hello again."

    def test_of_somebody_elses_worker_are_not_offered(self, client: openai.OpenAI, server: Server) -> None:
        eve = farm.user("eve")
        _, key = jobs.create_worker("hers", queues=["openai"], owner=eve)
        answer = httpx.post(
            f"{server.url}/api/v1/worker/hello", json={"models": ["tiny"]}, headers={"Authorization": f"Bearer {key}"}
        )
        assert answer.status_code == 200
        offers(eve, "tiny")
        assert client.models.list().data == []

    def test_come_with_the_key_that_may_serve_them(self, server: Server, ada: User) -> None:
        """Of a key without the queue `openai`, only the models whose queues it names."""
        _, key = jobs.create_worker("some", queues=["chat", "openai.tiny"])
        httpx.post(
            f"{server.url}/api/v1/worker/hello",
            json={"models": ["tiny", "large"]},
            headers={"Authorization": f"Bearer {key}"},
        )
        offers(ada, "tiny")
        assert Worker.objects.get().queues == ["chat", "openai.tiny"]
        assert not Queue.objects.filter(name="openai.large").exists()

    def test_are_served_by_a_worker_that_already_waits_when_its_server_gets_one(
        self, client: openai.OpenAI, model: ModelServer, working: Working, monkeypatch: pytest.MonkeyPatch, ada: User
    ) -> None:
        monkeypatch.setattr("jobfarm_worker.introduction.MODELS_EVERY_S", 0.2)
        model.scripts = [whole(**{**completion("New."), "model": "new"})]
        with working():
            model.models = ["new", "tiny"]
            offers(ada, "new", "tiny")
            answer = client.chat.completions.create(model="new", messages=HELLO)
        assert answer.choices[0].message.content == "New."


class TestWhatIsRefused:
    @pytest.mark.parametrize("path", CALLS)
    def test_a_model_that_nobody_offers_with_the_list(self, http: httpx.Client, path: str, working: Working) -> None:
        with working():
            answer = http.post(path, json={"model": "huge", "messages": HELLO})
        assert answer.status_code == 404
        error = answer.json()["error"]
        assert (error["code"], error["param"], error["type"]) == ("model_not_found", "model", "invalid_request_error")
        assert "Offered are: tiny." in error["message"]
        assert not Job.objects.exists()

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            ({"messages": HELLO}, "model"),
            ({"model": 7}, "model"),
            ({"model": "tiny", "stream": "yes"}, "stream"),
            ([], "body"),
        ],
    )
    def test_a_field_that_the_farm_reads_and_cannot(self, http: httpx.Client, body: Any, param: str) -> None:
        answer = http.post("chat/completions", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("GET", "", 404),
            ("GET", "nothing", 404),
            ("POST", "moderations", 404),
            ("PUT", "chat/completions", 405),
            ("GET", "chat/completions/7", 404),
            ("GET", "chat/completions/7/events", 404),
            ("GET", "models/none", 404),
        ],
    )
    def test_whatever_is_not_there(self, http: httpx.Client, method: str, path: str, status: int) -> None:
        answer = http.request(method, path)
        assert answer.status_code == status
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}

    @pytest.mark.parametrize(
        ("content", "status", "code"),
        [
            (b"{", 400, "not_json"),
            (b'{"model": "tiny", "x": NaN}', 400, "not_json"),
            (b'{"model": "tiny", "x": "' + b"x" * 50_000_000 + b'"}', 413, "too_large"),
            (b'{"model": "tiny"' + b"".join(b', "x%d": 12345678' % n for n in range(60_000)) + b"}", 413, "too_large"),
            (b'{"model": "tiny", "x": "' + b"x" * 70_000 + b'\\u0000"}', 400, "not_json"),
            (b'{"model": "tiny", "x": "\\u0000"}', 400, "invalid_json"),
        ],
    )
    def test_bodies_that_cannot_be_kept(
        self, http: httpx.Client, working: Working, content: bytes, status: int, code: str
    ) -> None:
        with working():
            answer = http.post("chat/completions", content=content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
        assert not Job.objects.exists()

    def test_keys_that_are_wrong_or_for_something_else(self, client: openai.OpenAI, ada: User) -> None:
        with pytest.raises(openai.AuthenticationError):
            client.with_options(api_key="jft_wrong").models.list()
        _, reader = accounts.create_token(ada, name="reads", scopes=["read"])
        with pytest.raises(openai.PermissionDeniedError) as caught:
            client.with_options(api_key=reader).models.list()
        assert caught.value.code == "insufficient_scope"

    def test_calls_of_others_and_jobs_that_are_no_calls(self, http: httpx.Client, ada: User) -> None:
        other = jobs.submit("openai", {"path": "embeddings", "body": {}}, owner=farm.user("eve"))
        own = jobs.submit("image", {"prompt": "a sea"}, owner=ada)
        for job in (other, own):
            assert http.get(f"embeddings/{job.pk}").status_code == 404
            assert http.get(f"embeddings/{job.pk}/events").status_code == 404

    def test_more_than_may_be_submitted_with_a_retry_after(
        self, http: httpx.Client, model: ModelServer, working: Working, ada: User
    ) -> None:
        """A limit of the farm's is a 429 in OpenAI's form."""
        capacity = 2 * settings.JOBFARM["SUBMIT_BURST"]
        for _ in range(10):  # ahead of time, since tokens come in while the worker starts
            ratelimits.limit(limits.SUBMIT_USER, key=f"user:{ada.pk}", count=capacity, reserve=True)
        with working():
            answer = http.post("chat/completions", json={"model": "tiny", "messages": HELLO})
        assert answer.status_code == 429
        assert answer.json()["error"]["type"] == "rate_limit_error"
        assert int(answer.headers["retry-after"]) > 0
        assert not Job.objects.exists()


class TestAJobThatIsCanceled:
    def test_is_an_error_that_names_it(self, client: openai.OpenAI, model: ModelServer, working: Working) -> None:
        started = threading.Event()
        model.scripts = [Script([started])]
        with working():
            errors: list[openai.APIStatusError] = []

            def call() -> None:
                with pytest.raises(openai.APIStatusError) as caught:
                    client.chat.completions.create(model="tiny", messages=HELLO)
                errors.append(caught.value)

            calling = threading.Thread(target=call)
            calling.start()
            job = farm.until(lambda: Job.objects.running().first())
            assert job is not None
            jobs.cancel(job.pk, by=None)
            calling.join(30)
            started.set()
        [error] = errors
        assert (error.status_code, error.code) == (410, "job_canceled")
        assert f"Job {job.pk}" in error.message
        assert error.response.headers["x-should-retry"] == "false"
