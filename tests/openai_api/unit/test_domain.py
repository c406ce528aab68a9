"""What a call asks for, how it ended, and the form of OpenAI's errors."""

import json
from typing import Any

import pytest

from core import large_json
from jobfarm_worker.handlers import calls
from metering.domain import Tokens
from observing import fields
from openai_api import domain
from openai_api.errors import InvalidCall
from tests.looped import looped


class TestACall:
    def test_keeps_its_whole_body(self) -> None:
        body = {"model": "tiny", "stream": True, "odd": [None]}
        call = domain.call("completions", body)
        assert (call.model, call.is_stream) == ("tiny", True)
        assert call.payload == {"path": "completions", "body": body}

    @pytest.mark.parametrize("path", ["embeddings", "images/generations"])
    def test_does_not_stream_everywhere(self, path: str) -> None:
        assert not domain.call(path, {"model": "tiny", "stream": False}).is_stream
        with pytest.raises(InvalidCall, match="stream"):
            domain.call(path, {"model": "tiny", "stream": True})

    @looped("model", [None, "", 7, "x" * 201, ["tiny"]])
    def test_names_a_model(self, model: Any) -> None:
        with pytest.raises(InvalidCall, match="model"):
            domain.call("completions", {"model": model})


class TestAFailure:
    def test_is_what_the_model_server_answered_as_the_worker_writes_it(self) -> None:
        body = {"error": {"message": "Too\nlong.", "code": None}}
        failed = calls.refused(400, body, message="Too\nlong.", retryable=False)
        assert domain.failure(job_id=7, status="failed", message=str(failed)) == (400, body)

    @looped(
        "message",
        [
            "Traceback\nValueError: It broke.",
            "The model server answered 400: It broke.",
            "The model server answered 200: x\n{}It broke.",
            "The model server answered 400: x\n{It broke.}",
            str(calls.refused(400, {"error": "x" * 20_000}, message="It broke.", retryable=False)),
        ],
    )
    def test_of_any_other_kind_is_the_farms_and_names_the_job(self, message: str) -> None:
        status, body = domain.failure(job_id=7, status="failed", message=message)
        assert (status, body["error"]["code"], body["error"]["job_id"]) == (502, "job_failed", 7)
        assert body["error"]["message"].startswith("Job 7 failed: ")
        assert "It broke." in body["error"]["message"]

    @pytest.mark.parametrize(("status", "number"), [("canceled", 410), ("timed_out", 504)])
    def test_says_how_the_job_ended(self, status: str, number: int) -> None:
        answered, body = domain.failure(job_id=7, status=status, message="")
        assert (answered, body["error"]["code"]) == (number, f"job_{status}")


class TestARefusal:
    @looped(
        ("status", "answered", "kind"),
        [
            (422, 400, "invalid_request_error"),
            (401, 401, "authentication_error"),
            (403, 403, "permission_error"),
            (404, 404, "invalid_request_error"),
            (429, 429, "rate_limit_error"),
            (500, 500, "server_error"),
        ],
    )
    def test_of_the_farm_is_put_into_openais_form(self, status: int, answered: int, kind: str) -> None:
        body = {"error": "some_code", "message": "Some sentence.", "limit": 7}
        error = {"message": "Some sentence.", "type": kind, "param": None, "code": "some_code"}
        assert domain.refused(body, status=status) == (answered, {"error": error})

    @pytest.mark.parametrize("body", [{"error": {"message": "Busy."}}, {"detail": "Busy."}])
    def test_of_a_model_server_stays_as_it_is(self, body: Any) -> None:
        assert domain.refused(json.loads(json.dumps(body)), status=422) == (422, body)


def lines(*events: Any) -> str:
    return "\n".join(json.dumps(event) for event in events)


class TestAMessage:
    BEGIN: Any = {"type": "message_start", "message": {"usage": {"input_tokens": 3, "cache_read_input_tokens": 4}}}
    PIECE: Any = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}}

    def test_counts_what_its_first_and_its_last_event_say(self) -> None:
        end = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 2, "input_tokens": None}}
        written = domain.written(lines(self.BEGIN, self.PIECE, end))
        assert (written.characters, written.used) == (6, Tokens(7, 2))

    def test_counts_nothing_before_its_last_event_or_of_a_server_that_does_not_count(self) -> None:
        silent = {"type": "message_delta", "usage": {"input_tokens": 0, "output_tokens": 0}}
        assert domain.written(lines(self.BEGIN, self.PIECE)).used is None
        assert domain.written(lines({"type": "message_start"}, self.PIECE, silent)).used is None

    def test_has_a_text_for_people(self) -> None:
        use = {"type": "content_block_start", "content_block": {"type": "tool_use", "name": "look"}}
        pieces = [use, self.PIECE, {"delta": {"thinking": "Hm."}}, {"delta": {"partial_json": "{}"}}, {"type": "ping"}]
        assert "".join(domain.output_text(json.dumps(each)) for each in pieces) == "look Hello.Hm.{}"

    def test_expects_its_system_and_a_picture_whatever_its_size(self) -> None:
        picture = {"type": "image", "source": {"type": "base64", "data": "A" * 400_000}}
        body = {"system": "x" * 400, "messages": [{"content": [picture]}], "max_tokens": 9}
        tokens = domain.expected({"path": "messages", "body": body})
        assert 1100 <= tokens.input <= 1110
        assert tokens.output == 9


class TestAnErrorOfMessages:
    @looped(
        ("status", "kind"),
        [
            (400, "invalid_request_error"), (401, "authentication_error"), (403, "permission_error"),
            (404, "not_found_error"), (410, "invalid_request_error"), (413, "request_too_large"),
            (429, "rate_limit_error"), (500, "api_error"), (502, "api_error"), (503, "overloaded_error"),
            (504, "timeout_error"), (529, "overloaded_error"),
        ],
    )  # fmt: skip
    def test_has_the_type_of_its_status(self, status: int, kind: str) -> None:
        with fields.about(request_id="r"):
            _, body = domain.refused({"error": "some_code", "message": "Why."}, status=status, path="messages/7")
        assert body == {"type": "error", "error": {"type": kind, "message": "Why."}, "request_id": "r"}

    @looped("body", [{"error": {"message": "Busy."}}, {"error": "Busy."}, {"message": "Busy."}, {"detail": "Busy."}])
    def test_has_the_words_of_any_model_server(self, body: Any) -> None:
        assert domain.in_form(body, status=500, path="messages")["error"]["message"] == "Busy."

    def test_of_a_server_in_that_form_stays_as_it_is(self) -> None:
        fault = {"type": "billing_error", "message": "Pay.", "details": None}
        assert domain.in_form({"type": "error", "error": fault}, status=400, path="messages")["error"] == fault

    def test_is_of_these_calls_alone(self) -> None:
        assert domain.in_form({"error": {"message": "Busy."}}, status=500, path="responses") == {
            "error": {"message": "Busy."}
        }


def test_what_was_cut_out_of_a_call_counts_as_it_would_have_whole() -> None:
    picture = "data:image/png;base64," + "iVBO" * 50_000
    of_anthropic = {"type": "image", "source": {"type": "base64", "data": "iVBO" * 50_000}}
    history = ["word " * 20_000, *["word " * 500] * 40]
    for content in ("word " * 20_000, [{"type": "image_url", "image_url": {"url": picture}}], [of_anthropic], history):
        body = {"model": "tiny", "max_tokens": 7, "messages": [{"role": "user", "content": content}]}
        whole = domain.expected({"path": "chat/completions", "body": body})
        cut = domain.expected({"path": "chat/completions", "body": large_json.cut(body, domain.BODY)})
        assert whole.output == cut.output == 7
        assert whole.input <= cut.input <= whole.input + 100  # quotes and commas
