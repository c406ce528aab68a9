"""Model servers that are not quite as OpenAI's: what callers get all the same, and what is told of their faults."""

import base64
import struct
import threading
from typing import Any

import httpx
import openai
import pytest

from jobs.models import Job
from metering import operations as metering
from tests import farm
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import END, USAGE, ModelServer, Script, chunk, delta, refusal, streamed, whole

pytestmark = pytest.mark.django_db(transaction=True)
HELLO: Any = [{"role": "user", "content": "Say hello."}]
DONE = b"data: [DONE]\n\n"
BROKEN = b'data: {"error": {"message": "Out of memory.", "type": "server_error"}}\n\n'


def stream(client: openai.OpenAI, **options: Any) -> list[Any]:
    return list(client.chat.completions.create(model="tiny", messages=HELLO, stream=True, **options))


def test_one_that_says_done_and_not_why_has_answered(
    client: openai.OpenAI, model: ModelServer, working: Working
) -> None:
    model.scripts = [
        Script([delta(content="Hel"), delta(content="lo."), DONE]),
        Script([delta(content="Hel"), DONE]),
        Script([delta(role="assistant", content=""), DONE]),
        streamed("At", " last."),
    ]
    with working():
        chunks = stream(client)
        response: Any = list(client.responses.create(model="tiny", input="Say hello.", stream=True))[-1]
        again = stream(client)
    assert [each.choices[0].finish_reason for each in chunks] == [None, None, "stop"]
    assert "finish_reason" in chunks[-1].jobfarm["notes"][0]
    assert (response.type, response.response.output_text) == ("response.completed", "Hel")
    farm.until(lambda: set(farm.statuses()) == {"success"}, what="the ends")
    first: Any = Job.objects.order_by("pk")[0].result
    assert (first["choices"][0]["finish_reason"], first["jobfarm"]) == ("stop", chunks[-1].jobfarm)
    assert "".join(each.choices[0].delta.content or "" for each in again) == "At last."  # nothing is no answer


def test_one_that_refuses_stream_options_is_asked_once_without_and_then_always(
    client: openai.OpenAI, model: ModelServer, working: Working
) -> None:
    answers = [
        refusal(422, "Extra inputs are not permitted: stream_options."),
        *[Script([delta(content="Hello."), delta(finish="stop"), DONE])] * 2,
    ]
    model.scripts = [*answers]
    with working():
        texts = [[each.choices[0].delta.content for each in stream(client)] for _ in range(2)]
    assert texts == [["Hello.", None]] * 2
    assert ["stream_options" in request for request in model.requests] == [True, False, False]
    job = Job.objects.order_by("pk")[0]
    used = farm.until(lambda: metering.of_job(job.pk), what="the end")
    assert used is not None
    assert (used.tokens_out, used.is_estimated) == (2, True)


def test_one_that_refuses_the_call_is_not_asked_again_once_it_took_stream_options(
    client: openai.OpenAI, model: ModelServer, working: Working
) -> None:
    model.scripts = [streamed("Hello."), refusal(400, "Too many tokens.")]
    with working():
        stream(client)
        with pytest.raises(openai.BadRequestError, match="Too many tokens"):
            stream(client)
    assert len(model.requests) == 2


@pytest.mark.parametrize("wanted", ["float", "base64"])
def test_one_that_ignores_the_encoding_of_embeddings_is_put_right(
    http: httpx.Client, model: ModelServer, working: Working, wanted: str
) -> None:
    vector = [0.5, -1.0, 0.25]
    encoded = base64.b64encode(struct.pack("<3f", *vector)).decode()
    sent, expected = (vector, encoded) if wanted == "base64" else (encoded, vector)
    data = [{"object": "embedding", "index": 0, "embedding": sent}]
    model.scripts = [whole(object="list", model="tiny", data=data, usage=USAGE)]
    with working():
        answer = http.post("embeddings", json={"model": "tiny", "input": "x", "encoding_format": wanted})
    assert answer.json()["data"][0]["embedding"] == expected


def test_one_that_fails_in_mid_stream_is_named_and_the_job_has_failed(
    client: openai.OpenAI, model: ModelServer, working: Working
) -> None:
    model.scripts = [Script([delta(content="Hel"), BROKEN]), Script([delta(content="Hel")], is_cut=True)]
    with working():
        for cause in ("Out of memory.", "broke off"):
            pieces = iter(client.chat.completions.create(model="tiny", messages=HELLO, stream=True))
            assert next(pieces).choices[0].delta.content == "Hel"
            with pytest.raises(openai.APIError, match="The model server failed") as caught:
                next(pieces)
            assert caught.value.code == "job_failed"
            assert cause in caught.value.message
    assert [*farm.statuses()] == ["failed", "failed"]
    assert len(model.requests) == 2  # nobody would read another answer


def test_one_that_fails_in_mid_stream_of_a_call_in_the_background_is_named_too(
    client: openai.OpenAI, model: ModelServer, working: Working
) -> None:
    model.scripts = [Script([delta(content="Hel"), BROKEN])]
    with working(), pytest.raises(openai.APIError, match=r"is tried again: .*Out of memory") as caught:
        stream(client, extra_headers={"X-Background": "1"})
    assert caught.value.code == "stream_broken"
    assert Job.objects.get().status == "pending"


def test_a_usage_that_groq_sends_is_counted(client: openai.OpenAI, model: ModelServer, working: Working) -> None:
    finish = {"index": 0, "delta": {}, "finish_reason": "stop"}
    model.scripts = [
        Script([delta(content="Hello."), chunk(choices=[finish], x_groq={"id": "r", "usage": USAGE}), DONE])
    ]
    with working():
        stream(client)
    used = farm.until(lambda: metering.of_job(Job.objects.get().pk), what="the end")
    assert used is not None
    assert (used.tokens_in, used.tokens_out, used.is_estimated) == (3, 2, False)


def test_what_was_read_before_a_caller_hung_up_is_charged(
    client: openai.OpenAI, model: ModelServer, working: Working
) -> None:
    model.scripts = [Script([delta(content="lanterns")] * 20 + [threading.Event(), *END])]
    with working():
        made = client.chat.completions.create(model="tiny", messages=HELLO, stream=True)
        pieces = iter(made)
        for _ in range(20):
            next(pieces)
        made.close()
        farm.until(lambda: Job.objects.get().status == "canceled", what="the cancel")
    used = metering.of_job(Job.objects.get().pk)
    assert used is not None
    assert (used.tokens_out, used.is_estimated) == (40, True)
