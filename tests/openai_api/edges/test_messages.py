"""Anthropic's Messages API by its own client: of servers that have it, and of those that have chats alone."""

import json
import threading
from typing import Any

import anthropic
import httpx
import pytest
from django.contrib.auth.models import User

from jobs.models import Job
from metering import operations as metering
from tests import farm
from tests.openai_api.edges.conftest import Working, offers
from tests.openai_api.edges.test_workers import kill, process
from tests.openai_api.model_server import (
    END,
    USAGE,
    ModelServer,
    Script,
    completion,
    delta,
    refusal,
    streamed,
    whole,
)  # fmt: skip
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
HELLO: Any = [{"role": "user", "content": "Say hello."}]
REQUEST: Any = {"model": "tiny", "max_tokens": 9, "messages": HELLO}
LOOK: Any = {"name": "look", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def text_delta(text: str) -> bytes:
    return event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


OWN: Any = {
    "id": "msg_own", "type": "message", "role": "assistant", "model": "tiny", "stop_sequence": None,
    "content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 4},
}  # fmt: skip
BEGIN = (
    event("message_start", message={**OWN, "content": [], "usage": {**OWN["usage"], "output_tokens": 1}}),
    event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
)
LAST = (
    event("content_block_stop", index=0),
    event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 2}),
    event("message_stop"),
)


def text_of(claude: anthropic.Anthropic, **more: Any) -> str:
    with claude.messages.stream(**{**REQUEST, **more}) as stream:
        return "".join(stream.text_stream)


class TestOfAServerThatHasMessages:
    def test_is_its_own_word_for_word_and_the_request_reaches_it_as_it_is(
        self, claude: anthropic.Anthropic, own: ModelServer, working: Working
    ) -> None:
        own.scripts = [whole(**OWN, odd=[1])]
        with working():
            response = claude.messages.with_raw_response.create(
                **REQUEST, thinking={"type": "adaptive"}, extra_body={"odd": {"a": 1}},
                extra_headers={"anthropic-version": "2023-06-01", "anthropic-beta": "of-tomorrow"},
            )  # fmt: skip
        assert json.loads(response.text()) == {**OWN, "odd": [1]}
        assert response.headers["x-job-id"] == str(Job.objects.get().pk)
        assert own.requests == [{"path": "/v1/messages", **REQUEST, "thinking": {"type": "adaptive"}, "odd": {"a": 1}}]
        sent = own.headers[-1]
        assert (sent["anthropic-version"], sent["anthropic-beta"]) == ("2023-06-01", "of-tomorrow")
        assert "jft_" not in json.dumps(sent)
        used = metering.of_job(Job.objects.get().pk)
        assert used is not None
        assert (used.model, used.tokens_in, used.tokens_out, used.is_estimated) == ("tiny", 7, 2, False)

    def test_streams_its_events_once_with_their_names(
        self, claude: anthropic.Anthropic, own: ModelServer, working: Working, http: httpx.Client
    ) -> None:
        script = Script([*BEGIN, event("ping"), text_delta("Hel"), text_delta("lo."), *LAST])
        own.scripts = [script, script]
        with working():
            assert text_of(claude) == "Hello."
            lines = http.post("messages", json={**REQUEST, "stream": True}).text.splitlines()
        names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
        assert names == [
            "message_start", "content_block_start", "content_block_delta", "content_block_delta",
            "content_block_stop", "message_delta", "message_stop",
        ]  # fmt: skip
        farm.until(lambda: set(farm.statuses()) == {"success"}, what="the ends")
        assert Job.objects.whole().order_by("pk")[0].result == OWN
        used = metering.of_job(Job.objects.order_by("pk")[0].pk)
        assert used is not None
        assert (used.tokens_in, used.tokens_out) == (7, 2)

    def test_counts_the_tokens_of_a_message(
        self, claude: anthropic.Anthropic, own: ModelServer, working: Working
    ) -> None:
        own.scripts = [whole(input_tokens=42)]
        with working():
            counted = claude.messages.count_tokens(model="tiny", messages=HELLO, system="Be brief.", tools=[LOOK])
        assert counted.input_tokens == 42
        assert own.requests[0]["path"] == "/v1/messages/count_tokens"

    def test_is_asked_once_whether_it_has_them(
        self, claude: anthropic.Anthropic, own: ModelServer, working: Working
    ) -> None:
        own.scripts = [whole(**OWN), whole(**OWN)]
        with working():
            for _ in range(2):
                claude.messages.create(**REQUEST)
        assert own.refused == ["messages"]

    def test_refuses_in_its_own_words_and_with_its_status(
        self, claude: anthropic.Anthropic, own: ModelServer, working: Working
    ) -> None:
        fault = {"type": "invalid_request_error", "message": "prompt is too long"}
        body = json.dumps({"type": "error", "error": fault}).encode()
        own.scripts = [Script([body], status=400), refusal(413, "Too long.")]
        with working():
            with pytest.raises(anthropic.BadRequestError, match="prompt is too long") as caught:
                claude.messages.create(**REQUEST)
            with pytest.raises(anthropic.APIStatusError, match="Too long") as other:
                claude.messages.create(**REQUEST)
        assert caught.value.type == "invalid_request_error"
        assert (other.value.status_code, other.value.type) == (413, "request_too_large")
        assert caught.value.request_id is not None

    def test_that_fails_in_mid_stream_is_named_in_an_error_event(
        self, claude: anthropic.Anthropic, own: ModelServer, working: Working
    ) -> None:
        fault = event("error", error={"type": "overloaded_error", "message": "Out of memory."})
        own.scripts = [Script([*BEGIN, text_delta("Hel"), fault])]
        with working(), pytest.raises(anthropic.APIStatusError, match="Out of memory") as caught:
            text_of(claude)
        assert caught.value.type == "overloaded_error"
        assert [*farm.statuses()] == ["failed"]


class TestOfAServerThatHasChatsAlone:
    def test_is_made_of_a_chat(self, claude: anthropic.Anthropic, model: ModelServer, working: Working) -> None:
        model.scripts = [whole(**completion("Hello."))]
        with working():
            message = claude.messages.create(
                **REQUEST, system="Be brief.", stop_sequences=["\n"], extra_body={"top_k": 4}
            )
        job = Job.objects.get()
        assert (message.id, message.stop_reason) == (f"msg_{job.pk}", "end_turn")
        assert [block.model_dump()["text"] for block in message.content] == ["Hello."]
        assert (message.usage.input_tokens, message.usage.output_tokens) == (3, 2)
        system = {"role": "system", "content": "Be brief."}
        sent_on = {"model": "tiny", "max_tokens": 9, "stop": ["\n"], "messages": [system, *HELLO]}
        assert model.requests == [{"path": "/v1/chat/completions", **sent_on}]
        assert ["top_k" in note for note in job.result["jobfarm"]["notes"]] == [True]
        used = metering.of_job(job.pk)
        assert used is not None
        assert (used.model, used.tokens_in, used.tokens_out) == ("tiny", 3, 2)

    def test_streams_thoughts_text_and_calls_of_tools_and_takes_their_results(
        self, claude: anthropic.Anthropic, model: ModelServer, working: Working
    ) -> None:
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at":'}}
        rest = {"index": 0, "function": {"arguments": '"sea"}'}}
        chunks = [delta(reasoning_content="Hm."), delta(content="I look."), delta(tool_calls=[call])]
        usage = END[1]
        model.scripts = [
            Script([*chunks, delta(tool_calls=[rest]), delta(finish="tool_calls"), usage, END[2]]),
            streamed("A", " ship."),
        ]
        with working():
            with claude.messages.stream(**REQUEST, tools=[LOOK]) as stream:
                message = stream.get_final_message()
            result = {"type": "tool_result", "tool_use_id": "call_1", "content": "a ship"}
            turns = [*HELLO, message.to_param(), {"role": "user", "content": [result]}]
            assert text_of(claude, messages=turns, tools=[LOOK]) == "A ship."
        thought, text, use = [block.model_dump() for block in message.content]
        assert (thought["thinking"], text["text"]) == ("Hm.", "I look.")
        assert (use["id"], use["name"], use["input"]) == ("call_1", "look", {"at": "sea"})
        assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 2)
        _, call_again, result_again = model.requests[1]["messages"]
        assert (call_again["content"], call_again["tool_calls"][0]["function"]["name"]) == ("I look.", "look")
        assert result_again == {"role": "tool", "tool_call_id": "call_1", "content": "a ship"}
        assert Job.objects.order_by("pk")[0].result["usage"]["input_tokens"] == USAGE["prompt_tokens"]

    def test_has_its_tokens_estimated(self, claude: anthropic.Anthropic, model: ModelServer, working: Working) -> None:
        with working():
            counted = claude.messages.count_tokens(model="tiny", messages=[{"role": "user", "content": "x" * 400}])
        assert 100 <= counted.input_tokens <= 110
        assert model.requests == []

    def test_that_says_done_and_not_why_has_answered(
        self, claude: anthropic.Anthropic, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [Script([delta(content="Hello."), b"data: [DONE]\n\n"])]
        with working():
            assert text_of(claude) == "Hello."
        used = farm.until(lambda: metering.of_job(Job.objects.get().pk), what="the end")
        assert used is not None
        assert (used.tokens_out, used.is_estimated) == (2, True)


# What Claude Code sends, with less text: system blocks, tools, betas, fields that no other server knows.
CODE: Any = {
    "model": "tiny", "max_tokens": 32000, "stream": True, "temperature": 1,
    "system": [
        {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "x" * 60_000, "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"},
                {"type": "text", "text": "List the files.", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {"role": "system", "content": "Be quick."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
                {"type": "redacted_thinking", "data": "AA"},
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result", "tool_use_id": "toolu_1", "is_error": False,
                    "content": [{"type": "text", "text": "a.txt"}], "cache_control": {"type": "ephemeral"},
                }
            ],
        },
    ],
    "tools": [
        {
            "name": "Bash", "description": "Runs a command.", "eager_input_streaming": True,
            "input_schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
        },
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    ],
    "metadata": {"user_id": "user_0_account__session_1"}, "thinking": {"type": "enabled", "budget_tokens": 31999},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"}, "speed": "standard", "of_tomorrow": {"a": [1]},
}  # fmt: skip
CODE_HEADERS = {
    "anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14",
    "anthropic-dangerous-direct-browser-access": "true", "x-app": "cli",
    "User-Agent": "claude-cli/2.1.0 (external, cli)",
}  # fmt: skip


@pytest.mark.parametrize("has_messages", [True, False], ids=["passed", "mapped"])
def test_the_requests_of_claude_code_are_answered(
    http: httpx.Client, model: ModelServer, working: Working, has_messages: bool
) -> None:
    model.has = {"messages"} if has_messages else set()
    model.scripts = [Script([*BEGIN, text_delta("One."), *LAST]) if has_messages else streamed("One.")]
    with working():
        answer = http.post("messages", params={"beta": "true"}, json=CODE, headers=CODE_HEADERS)
    assert (answer.status_code, '"One."' in answer.text) == (200, True), answer.text
    assert answer.text.rstrip().endswith('data: {"type":"message_stop"}')
    [sent_on] = model.requests
    if has_messages:
        assert sent_on == {"path": "/v1/messages", **CODE}
        return
    assert [each["role"] for each in sent_on["messages"]] == ["system", "user", "assistant", "tool"]
    assert [tool["function"]["name"] for tool in sent_on["tools"]] == ["Bash"]
    farm.until(lambda: Job.objects.get().status == "success", what="the end")
    assert len(Job.objects.get().result["jobfarm"]["notes"]) == 7


class TestACallerThatGoesAway:
    def test_cancels_the_job_and_pays_for_what_was_written(
        self, claude: anthropic.Anthropic, own: ModelServer, working: Working
    ) -> None:
        own.scripts = [Script([*BEGIN, *[text_delta("lanterns")] * 20, threading.Event()])]
        with working():
            stream = claude.messages.create(**REQUEST, stream=True)
            for number, _ in enumerate(stream):
                if number == 21:
                    break
            stream.close()
            farm.until(lambda: Job.objects.get().status == "canceled", what="the cancel")
        used = metering.of_job(Job.objects.get().pk)
        assert used is not None
        assert (used.tokens_out, used.is_estimated) == (40, True)

    def test_and_repeats_its_call_as_its_client_does_gets_the_same_job(
        self, claude: anthropic.Anthropic, own: ModelServer, working: Working
    ) -> None:
        rest = threading.Event()
        own.scripts = [Script([rest, json.dumps(OWN).encode()], headers={"content-type": "application/json"})]
        with working():
            threading.Timer(3, rest.set).start()
            message = claude.with_options(timeout=2, max_retries=1).messages.create(**REQUEST)
        assert message.id == "msg_own"
        assert Job.objects.count() == 1


def test_a_worker_that_is_lost_in_mid_stream_ends_it_with_an_error_event(
    server: Server, claude: anthropic.Anthropic, own: ModelServer, ada: User
) -> None:
    own.scripts = [Script([*BEGIN, text_delta("Hel"), threading.Event()])]
    with process(server, own) as worker:
        offers(ada, "tiny")
        stream = iter(claude.messages.create(**REQUEST, stream=True))
        kinds = [next(stream).type for _ in range(3)]
        assert kinds[-1] == "content_block_delta"
        job = kill(worker)
        with pytest.raises(anthropic.APIStatusError, match=f"worker of job {job.pk} was lost") as caught:
            next(stream)
    assert caught.value.type == "api_error"
    farm.until(lambda: farm.status(job.pk) == "canceled", what="the cancel: nobody waits any more")


def test_the_models_are_listed_in_the_form_of_who_asks(claude: anthropic.Anthropic, working: Working) -> None:
    with working():
        [listed] = claude.models.list()
    assert (listed.id, listed.display_name, listed.type) == ("tiny", "tiny", "model")


def test_an_ended_call_is_answered_again_whole_and_as_events(
    http: httpx.Client, own: ModelServer, working: Working
) -> None:
    own.scripts = [whole(**OWN)]
    with working():
        job_id = http.post("messages", json=REQUEST).headers["x-job-id"]
    assert http.get(f"messages/{job_id}").json() == OWN
    events = http.get(f"messages/{job_id}/events").text
    assert '"Hello."' in events
    assert events.rstrip().endswith('data: {"type": "message_stop"}')
