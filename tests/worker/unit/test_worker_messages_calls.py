"""Messages of model servers: which of them have the address, and what of an answer is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from jobfarm_worker.handlers.openai_calls import OpenAICalls
from jobfarm_worker.protocol import JobResult
from tests.openai_api.model_server import ModelServer, Script, completion, delta, refusal, serving, whole
from tests.worker.unit.test_worker_demonstrators import run

BODY: Any = {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello?"}]}
OWN: Any = {"id": "msg_own", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello."}]}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with serving("tiny") as model:
        yield model


async def outcome_of(model: ModelServer, *scripts: Script, path: str = "messages", **more: Any) -> JobResult:
    """The outcome of a call that is asked for twice at most."""
    model.scripts = [*scripts]
    handler = OpenAICalls(url=model.url, environ={}, delays_s=(0.0,))
    return (await run(handler, {"path": path, "body": {**BODY, **more}}))[0]


def paths(model: ModelServer) -> list[str]:
    return [request["path"].removeprefix("/v1/") for request in model.requests]


class TestTheAddressOfMessages:
    @pytest.mark.parametrize("status", [400, 401, 413, 422, 500, 529])
    async def test_is_there_whatever_the_server_says_of_an_empty_call(self, model: ModelServer, status: int) -> None:
        """llama.cpp answers 500."""
        model.has, model.to_empty = {"messages"}, refusal(status, "'messages' is required")
        outcome = await outcome_of(model, whole(**OWN))
        assert (outcome.result, paths(model), model.refused) == (OWN, ["messages"], ["messages"])

    @pytest.mark.parametrize("status", [408, 409, 425, 429, 502, 503, 504])
    async def test_is_not_decided_by_what_may_pass(self, model: ModelServer, status: int) -> None:
        model.has, model.to_empty = {"messages"}, refusal(status)
        outcome = await outcome_of(model, whole(**OWN))
        assert f"answered {status}" in outcome.error
        assert model.requests == []

    async def test_is_not_there_where_the_server_says_so_with_200(self, model: ModelServer) -> None:
        """As LM Studio does."""
        model.to_unknown = whole(error="Unexpected endpoint or method. (POST /v1/messages)")
        outcome = await outcome_of(model, whole(**completion("Hello.")))
        assert outcome.result["content"] == [{"type": "text", "text": "Hello."}]
        counted = await outcome_of(model, path="messages/count_tokens")
        assert counted.result["jobfarm"]["notes"]
        assert paths(model) == ["chat/completions"]


class TestAnAnswerThatIsNone:
    @pytest.mark.parametrize(
        "written", [b'{"error": {"message": "Full."}}', b"[]", b"{}", b'{"choices": []}', b'{"choices": [7]}']
    )
    async def test_is_asked_for_again(self, model: ModelServer, written: bytes) -> None:
        outcome = await outcome_of(model, Script([written]), whole(**completion("Hello.")))
        assert outcome.result["content"] == [{"type": "text", "text": "Hello."}]
        assert len(model.requests) == 2

    @pytest.mark.parametrize("written", [b'{"error": {"message": "Full."}}', b"[]"])
    async def test_is_asked_for_again_of_a_server_that_has_messages(self, model: ModelServer, written: bytes) -> None:
        model.has = {"messages"}
        outcome = await outcome_of(model, Script([written]), whole(**OWN))
        assert outcome.result == OWN

    async def test_fails_where_it_stays_so(self, model: ModelServer) -> None:
        outcome = await outcome_of(model, *[whole(error={"message": "Full."})] * 2)
        assert "Full." in outcome.error

    @pytest.mark.parametrize("reason", ["abort", "error"])
    async def test_says_so_in_its_finish_reason(self, model: ModelServer, reason: str) -> None:
        aborted = completion("Hel")
        aborted["choices"][0]["finish_reason"] = reason
        outcome = await outcome_of(model, whole(**aborted), whole(**completion("Hello.")))
        broken = await outcome_of(
            model, Script([delta(content="Hel"), delta(finish=reason), b"data: [DONE]\n\n"]), stream=True
        )
        assert outcome.result["content"] == [{"type": "text", "text": "Hello."}]
        assert f"finish_reason {reason}" in broken.error


async def test_an_error_in_mid_stream_keeps_its_type(model: ModelServer) -> None:
    model.has = {"messages"}
    fault = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    outcome = await outcome_of(model, *[Script([f"data: {json.dumps(fault)}\n\n".encode()])] * 2, stream=True)
    assert json.loads(outcome.error.splitlines()[-1]) == fault


async def test_a_response_that_failed_is_one_and_an_error_is_none(model: ModelServer) -> None:
    failed = {"id": "resp_own", "object": "response", "status": "failed", "error": {"message": "Full."}}
    made = await outcome_of(
        model, whole(error="Full."), whole(**completion("Hello.")), path="responses", input="Hello?"
    )
    assert made.result["output"][0]["content"][0]["text"] == "Hello."
    model.has = {"responses"}
    own = await outcome_of(model, whole(error="Full."), whole(**failed), path="responses", input="Hello?")
    assert (own.result["status"], own.result["error"]) == ("failed", {"message": "Full."})
