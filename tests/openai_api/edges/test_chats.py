"""Chats through OpenAI's own client: whole and streamed, with all that a server says."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from django.contrib.auth.models import User

from jobs import operations as jobs
from jobs.models import Job
from tests import farm
from tests.openai_api import model_server
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import ModelServer, Script, completion, delta, refusal, streamed, whole

pytestmark = pytest.mark.django_db(transaction=True)
HELLO: Any = [{"role": "user", "content": "Say hello."}]


class TestAWholeAnswer:
    def test_is_the_servers_own_and_the_calls_fields_reach_it_as_they_are(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [whole(**completion("Hello."), x_of_the_server=[1, None])]
        with working():
            response = client.chat.completions.with_raw_response.create(
                model="tiny", messages=HELLO, temperature=0.5, extra_body={"odd": {"deep": [1]}}
            )
        answer = response.parse()
        assert (answer.choices[0].message.content, answer.usage and answer.usage.total_tokens) == ("Hello.", 5)
        assert json.loads(response.text)["x_of_the_server"] == [1, None]
        job = Job.objects.whole().get()
        assert response.headers["x-job-id"] == str(job.pk)
        assert (job.kind, job.queue, job.status) == ("openai", "openai.tiny", "success")
        assert model.requests == [
            {
                "path": "/v1/chat/completions",
                "model": "tiny",
                "messages": HELLO,
                "temperature": 0.5,
                "odd": {"deep": [1]},
            }
        ]

    def test_survives_429_and_500_of_the_server(
        self, client: openai.OpenAI, model: ModelServer, working: Working, ada: User
    ) -> None:
        """The first is asked again by the handler, the second by the farm, which waits as long as its kind says."""
        model.scripts = [refusal(429, retry_after="0.01"), refusal(500), whole(**completion("At last."))]
        with working(), ThreadPoolExecutor(1) as pool:
            calling = pool.submit(client.chat.completions.create, model="tiny", messages=HELLO)
            job = farm.until(
                lambda: next((job for job in Job.objects.waiting() if job.attempt == 1), None), what="the retry"
            )
            assert job is not None
            jobs.run_now(job.pk, by=ada)
            answer = calling.result(30)
        assert answer.choices[0].message.content == "At last."
        assert Job.objects.get().attempt == 2

    def test_is_the_servers_refusal_with_its_status_where_it_refuses(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [refusal(400, "Too many tokens.", "context_length_exceeded")]
        with working(), pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="tiny", messages=HELLO)
        assert caught.value.body == {
            "message": "Too many tokens.", "type": "invalid_request_error", "param": "messages",
            "code": "context_length_exceeded",
        }  # fmt: skip
        assert caught.value.response.headers["x-job-id"] == str(Job.objects.get().pk)
        assert Job.objects.get().attempt == 1


class TestAStream:
    def test_brings_each_chunk_and_the_usage_that_was_asked_for(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [streamed("Hel", "lo."), streamed("Hel", "lo.")]
        with working():
            chunks = list(
                client.chat.completions.create(
                    model="tiny", messages=HELLO, stream=True, stream_options={"include_usage": True}
                )
            )
            without = list(client.chat.completions.create(model="tiny", messages=HELLO, stream=True))
        assert _text(chunks) == _text(without) == "Hello."
        assert chunks[-1].usage is not None
        assert (chunks[-1].usage.total_tokens, chunks[-1].choices) == (5, [])
        assert [chunk.usage for chunk in without] == [None] * 4

    def test_leaves_the_whole_answer_with_its_usage_as_the_result(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [streamed("Hel", "lo.")]
        with working():
            list(client.chat.completions.create(model="tiny", messages=HELLO, stream=True))
        farm.until(lambda: Job.objects.get().status == "success")
        assert Job.objects.get().result == completion("Hello.")

    def test_comes_as_it_is_written_whatever_the_pieces_of_the_servers_body(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        rest = threading.Event()
        first, second = delta(content="Grüß "), delta(content="Göt\u0000ter\ud83d") + delta(content="\ude00")
        cut: list[model_server.Step] = [first[:20], first[20:], rest, second[:7], second[7:], *model_server.END]
        model.scripts = [Script(cut)]
        with working():
            stream = iter(client.chat.completions.create(model="tiny", messages=HELLO, stream=True))
            assert next(stream).choices[0].delta.content == "Grüß "
            rest.set()
            texts = [chunk.choices[0].delta.content for chunk in stream]
        assert texts == ["Göt\u0000ter\ud83d", "\ude00", None]
        farm.until(lambda: Job.objects.get().status == "success")
        assert _result()["choices"][0]["message"]["content"] == "Grüß Göt\ufffdter😀"

    def test_passes_the_pieces_of_tool_calls_and_puts_them_together(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        begin = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}
        pieces = [{"index": 0, "function": {"arguments": text}} for text in ('{"at":', '"sea"}')]
        second = {"index": 1, "id": "call_2", "type": "function", "function": {"name": "go", "arguments": "{}"}}
        deltas = [delta(tool_calls=[piece]) for piece in (begin, *pieces, second)]
        model.scripts = [Script([*deltas, delta(finish="tool_calls"), b"data: [DONE]\n\n"])]
        with working():
            chunks = list(client.chat.completions.create(model="tiny", messages=HELLO, stream=True))
        [piece] = chunks[1].model_dump()["choices"][0]["delta"]["tool_calls"]
        assert piece["function"]["arguments"] == '{"at":'
        farm.until(lambda: Job.objects.get().status == "success")
        [choice] = _result()["choices"]
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"]["tool_calls"] == [
            {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at":"sea"}'}},
            {"id": "call_2", "type": "function", "function": {"name": "go", "arguments": "{}"}},
        ]

    def test_that_the_server_refuses_has_the_refusals_status(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [refusal(400, "Too many tokens.")]
        with working(), pytest.raises(openai.BadRequestError, match="Too many tokens"):
            client.chat.completions.create(model="tiny", messages=HELLO, stream=True)


class TestACallerThatGoesAway:
    def test_cancels_the_job(self, client: openai.OpenAI, model: ModelServer, working: Working) -> None:
        model.scripts = [Script([delta(content="Hel"), threading.Event()])]
        with working():
            stream = client.chat.completions.create(model="tiny", messages=HELLO, stream=True)
            next(iter(stream))
            stream.close()
            farm.until(lambda: Job.objects.get().status == "canceled", what="the cancel")

    def test_of_a_whole_answer_cancels_it_while_it_waits(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [Script([threading.Event()])]
        with working(), pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=1).chat.completions.create(model="tiny", messages=HELLO)
        farm.until(lambda: Job.objects.get().status == "canceled", what="the cancel")

    def test_in_the_background_finds_its_answer_later(
        self, client: openai.OpenAI, model: ModelServer, working: Working, key: str
    ) -> None:
        rest = threading.Event()
        model.scripts = [Script([delta(content="Hel"), rest, delta(content="lo."), *model_server.END])]
        with working():
            stream = client.chat.completions.create(
                model="tiny", messages=HELLO, stream=True, extra_headers={"X-Background": "1"}
            )
            next(iter(stream))
            stream.close()
            rest.set()
            at = f"{client.base_url}chat/completions/{Job.objects.get().pk}"
            answer = httpx.get(at, headers={"Authorization": f"Bearer {key}"}, timeout=30)
        assert answer.json() == completion("Hello.")

    def test_resumes_the_stream_behind_the_last_event_that_it_has(
        self, client: openai.OpenAI, model: ModelServer, working: Working, key: str
    ) -> None:
        rest = threading.Event()
        model.scripts = [Script([delta(content="a"), delta(content="b"), rest, delta(content="c"), *model_server.END])]
        head = {"Authorization": f"Bearer {key}"}
        body = {"model": "tiny", "messages": HELLO, "stream": True}
        with working(), httpx.Client(base_url=str(client.base_url), headers=head, timeout=30) as http:
            with http.stream("POST", "chat/completions", json=body, headers={"X-Background": "1"}) as stream:
                job_id = stream.headers["x-job-id"]
                assert _events(stream, 1) == [("1.1", "a")]
            rest.set()
            at = f"chat/completions/{job_id}/events"
            with http.stream("GET", at, headers={"Last-Event-ID": "1.1"}) as stream:
                assert _events(stream) == [("1.2", "b"), ("1.3", "c"), ("1.4", None)]
            with http.stream("GET", at) as stream:  # from the beginning, of a job that has ended
                assert [text for _, text in _events(stream)] == ["a", "b", "c", None]

    def test_and_repeats_its_call_with_the_same_key_waits_for_the_same_job(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        rest = threading.Event()
        model.scripts = [Script([rest, json.dumps(completion("Once.")).encode()], headers=model_server.JSON)]
        again = {"Idempotency-Key": "one"}
        with working():
            with pytest.raises(openai.APITimeoutError):
                client.with_options(timeout=1).chat.completions.create(
                    model="tiny", messages=HELLO, extra_headers=again
                )
            rest.set()
            answer = client.chat.completions.create(model="tiny", messages=HELLO, extra_headers=again)
        assert answer.choices[0].message.content == "Once."
        assert Job.objects.count() == 1


def _result() -> Any:
    """The result of the one job."""
    return Job.objects.whole().get().result


def _text(chunks: list[Any]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def _events(stream: httpx.Response, count: int | None = None) -> list[tuple[str, str | None]]:
    """Id and text of so many events; of all, which end with [DONE]."""
    events: list[tuple[str, str | None]] = []
    event_id = ""
    for line in stream.iter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            event_id = value
        if name == "data" and value == "[DONE]":
            return events
        if name == "data":
            events.append((event_id, json.loads(value)["choices"][0]["delta"].get("content")))
        if len(events) == count:
            return events
    raise AssertionError("the stream ended without [DONE]")
