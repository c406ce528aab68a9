"""The Responses API through OpenAI's own client: in one piece, as events, in the background, continued."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from django.contrib.auth.models import User
from openai.lib.streaming.responses._responses import ResponseStreamState

from accounts import operations as accounts
from jobs import operations as jobs
from jobs.models import Job, Worker
from tests import farm
from tests.openai_api import model_server
from tests.openai_api.edges.conftest import Working, offers
from tests.openai_api.edges.test_workers import hand_over, kill, process
from tests.openai_api.model_server import ModelServer, Script, completion, delta, refusal, streamed, whole
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
HELLO: Any = [{"role": "user", "content": "Say hello."}]


class TestAResponse:
    def test_is_made_of_a_chat_where_the_server_knows_no_responses(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [whole(**completion("Hello."))]
        with working():
            response = client.responses.create(
                model="tiny", instructions="Be brief.", input="Say hello.", metadata={"a": "b"}, max_output_tokens=9
            )
        job = Job.objects.get()
        assert (response.id, response.status, response.output_text) == (f"resp_{job.pk}", "completed", "Hello.")
        assert response.usage is not None
        assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 2)
        assert (response.metadata, response.instructions) == ({"a": "b"}, "Be brief.")
        system = {"role": "system", "content": "Be brief."}
        assert model.requests == [
            {"path": "/v1/chat/completions", "model": "tiny", "max_tokens": 9, "messages": [system, *HELLO]}
        ]

    def test_is_the_servers_own_where_it_has_them(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.has = {"responses"}
        part = {"type": "output_text", "text": "Hello.", "annotations": []}
        message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        own = {"id": "resp_x", "object": "response", "status": "completed", "model": "tiny", "output": [message]}
        event = {"type": "response.completed", "sequence_number": 0, "response": own}
        model.scripts = [whole(**own), Script([f"data: {json.dumps(event)}\n\n".encode()])]
        with working():
            response = client.responses.create(model="tiny", input="Say hello.", extra_body={"odd": 1})
            [last] = client.responses.create(model="tiny", input="Say hello.", stream=True)
        first, second = Job.objects.order_by("pk")
        assert (response.id, response.output_text) == (f"resp_{first.pk}", "Hello.")
        assert last.type == "response.completed"
        assert last.response.id == f"resp_{second.pk}"
        sent = {"path": "/v1/responses", "model": "tiny", "input": "Say hello.", "store": False}
        assert model.requests == [{**sent, "odd": 1}, {**sent, "stream": True}]

    def test_that_a_chat_cannot_say_is_refused_by_name(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        with working(), pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="tiny", input="Hello?", prompt={"id": "of-mine"})
        assert caught.value.param == "prompt"
        assert model.requests == []

    def test_that_the_server_refuses_has_its_status_and_its_words(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [refusal(400, "Too many tokens.", "context_length_exceeded")]
        with working(), pytest.raises(openai.BadRequestError, match="Too many tokens"):
            client.responses.create(model="tiny", input="Hello?")
        failed = client.responses.retrieve(f"resp_{Job.objects.get().pk}")
        assert (failed.status, failed.error and failed.error.code) == ("failed", "context_length_exceeded")


class TestItsEvents:
    def test_come_typed_and_numbered_and_leave_the_whole_as_the_result(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [streamed("Hel", "lo.")]
        with working(), client.responses.stream(model="tiny", input="Say hello.") as stream:
            events = list(stream)
            final = stream.get_final_response()
        assert [event.sequence_number for event in events] == list(range(10))
        assert [event.type for event in events][:2] == ["response.created", "response.in_progress"]
        assert final.output_text == "Hello."
        assert model.requests[0]["stream_options"] == {"include_usage": True}
        farm.until(lambda: Job.objects.get().status == "success")
        assert client.responses.retrieve(final.id).output_text == "Hello."

    def test_are_named_as_curl_sees_them_and_end_without_done(
        self, http: httpx.Client, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [streamed("Hello.")]
        with working():
            text = http.post("responses", json={"model": "tiny", "input": "Say hello.", "stream": True}).text
        first, *_, last = [event for event in text.split("\n\n") if event and not event.startswith(":")]
        assert first.startswith("event: response.created\nid: 1.1\ndata: ")
        assert last.startswith("event: response.completed\n")

    def test_bring_calls_of_functions_whose_outputs_continue_it(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"sea"}'}}
        model.scripts = [
            Script([delta(tool_calls=[call]), delta(finish="tool_calls"), b"data: [DONE]\n\n"]),
            whole(**completion("It is rough.")),
        ]
        look: Any = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
        with working():
            with client.responses.stream(model="tiny", input="How is the sea?", tools=[look]) as stream:
                first = stream.get_final_response()
            [item] = first.output
            assert item.type == "function_call"
            assert (item.name, item.call_id, item.arguments) == ("look", "c1", '{"at":"sea"}')
            output: Any = [{"type": "function_call_output", "call_id": "c1", "output": "rough"}]
            second = client.responses.create(model="tiny", previous_response_id=first.id, input=output)
        assert (second.output_text, second.previous_response_id) == ("It is rough.", first.id)
        function = {"name": "look", "arguments": '{"at":"sea"}'}
        assert model.requests[1]["messages"] == [
            {"role": "user", "content": "How is the sea?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "rough"},
        ]

    def test_end_with_one_that_names_the_job_when_its_worker_dies(
        self, server: Server, client: openai.OpenAI, model: ModelServer, working: Working, ada: User
    ) -> None:
        """In the background another worker makes it anew, and nobody gets the rest of that behind the first's."""
        model.scripts = [Script([delta(content="Hel"), threading.Event()]), streamed("Good", " day.")]
        with process(server, model) as worker:
            offers(ada, "tiny")
            made = client.responses.create(model="tiny", input="Hello?", stream=True, background=True)
            stream = iter(made)
            while next(stream).type != "response.output_text.delta":
                pass
            job = kill(worker)
            end: Any = next(stream)
        assert (end.type, end.code, end.sequence_number) == ("error", "stream_broken", 5)
        assert f"job {job.pk}" in end.message
        with working():
            hand_over(job)
            response = farm.until(lambda: _completed(client, job.pk), what="the answer of the other worker")
        assert response.output_text == "Good day."
        with pytest.raises(openai.APIStatusError) as caught:
            client.responses.retrieve(response.id, stream=True, starting_after=4)
        assert caught.value.code == "stream_broken"
        again = list(client.responses.retrieve(response.id, stream=True))
        assert "".join(getattr(event, "delta", "") for event in again) == "Good day."
        assert again[0].sequence_number >= 1_000_000


class TestItsEnd:
    """Of jobs that a worker of another make has ended."""

    @pytest.fixture
    def claimed(self, server: Server, ada: User) -> tuple[Worker, jobs.ClaimedJob]:
        body = {"model": "tiny", "input": "x", "stream": True}
        jobs.submit("openai", {"path": "responses", "body": body}, owner=ada)
        worker = farm.worker("other", "openai")
        return worker, farm.claim_one(worker)

    def test_is_made_of_the_whole_where_its_worker_wrote_none(
        self, client: openai.OpenAI, claimed: tuple[Worker, jobs.ClaimedJob]
    ) -> None:
        parts = [{"type": "output_text", "text": "Hello.", "annotations": []}]
        call = {
            "id": "c",
            "type": "function_call",
            "name": "look",
            "arguments": "{}",
            "call_id": "1",
            "status": "completed",
        }
        output = [{"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": parts}, call]
        head = {"id": _id(), "object": "response", "created_at": 1, "model": "tiny", "tools": []}
        more = {"tool_choice": "auto", "parallel_tool_calls": True, "status": "completed"}
        farm.succeed(*claimed, result={**head, **more, "output": output})
        events: list[Any] = list(client.responses.retrieve(_id(), stream=True))
        state: Any = ResponseStreamState(input_tools=[], text_format=openai.omit)
        for event in events:
            state.handle_event(event)
        assert [event.sequence_number for event in events] == [*range(10)]
        assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
        assert (events[-1].response.id, events[-1].response.output_text) == (_id(), "Hello.")
        done = [event.item.type for event in events if event.type == "response.output_item.done"]
        assert done == ["message", "function_call"]

    def test_is_not_sent_before_the_job_has_succeeded(
        self, client: openai.OpenAI, claimed: tuple[Worker, jobs.ClaimedJob]
    ) -> None:
        """Who reads it continues that response at once."""
        worker, held = claimed
        result: dict[str, Any] = {"id": _id(), "object": "response", "status": "completed", "output": []}
        events = [{"type": "response.created"}, {"type": "response.completed"}]
        lines = [json.dumps({**event, "sequence_number": n, "response": result}) for n, event in enumerate(events)]
        jobs.write_output(worker, held.id, held.lease, seq=0, text="\n".join([*lines, ""]))
        stream = iter(client.responses.retrieve(_id(), stream=True))
        assert next(stream).type == "response.created"
        with ThreadPoolExecutor(1) as pool:
            end = pool.submit(next, stream)
            with pytest.raises(TimeoutError):
                end.result(0.5)
            farm.succeed(worker, held, result=result)
            assert end.result(30).type == "response.completed"

    def test_is_an_error_where_the_job_failed_before_its_first_event(
        self, client: openai.OpenAI, claimed: tuple[Worker, jobs.ClaimedJob]
    ) -> None:
        farm.fail(*claimed, error="It broke.", retryable=False)
        with pytest.raises(openai.APIStatusError) as caught:
            client.responses.retrieve(_id(), stream=True)
        assert (caught.value.status_code, caught.value.code) == (502, "job_failed")
        response = client.responses.retrieve(_id())
        assert (response.status, response.error and response.error.code) == ("failed", "job_failed")


class TestInTheBackground:
    def test_it_is_queued_runs_and_is_completed(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        rest = threading.Event()
        model.scripts = [Script([rest, json.dumps(completion("Hello.")).encode()], headers=model_server.JSON)]
        with working():
            made = client.responses.create(model="tiny", input="Say hello.", background=True)
            assert made.status in {"queued", "in_progress"}  # a worker that waits may be faster than the answer
            assert (made.background, made.output) == (True, [])
            farm.until(lambda: client.responses.retrieve(made.id).status == "in_progress", what="the worker")
            rest.set()
            response = farm.until(lambda: _completed(client, Job.objects.get().pk), what="the answer")
        assert (response.output_text, response.background) == ("Hello.", True)
        assert response.created_at == made.created_at

    def test_its_stream_is_resumed_behind_a_number(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        rest = threading.Event()
        pieces: list[model_server.Step] = [delta(content="a"), delta(content="b"), rest, delta(content="c")]
        model.scripts = [Script([*pieces, *model_server.END])]
        with working():
            made = client.responses.create(model="tiny", input="Say hello.", background=True, stream=True)
            events = iter(made)
            seen = [next(events) for _ in range(5)]
            made.close()
            rest.set()
            rest_of_it = list(client.responses.retrieve(_id(), stream=True, starting_after=seen[-1].sequence_number))
        assert [event.sequence_number for event in [*seen, *rest_of_it]] == list(range(5 + len(rest_of_it)))
        assert [event.delta for event in rest_of_it if hasattr(event, "delta")] == ["b", "c"]
        assert rest_of_it[-1].type == "response.completed"

    def test_it_can_be_canceled_once_and_again(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [Script([threading.Event()])]
        with working():
            made = client.responses.create(model="tiny", input="Say hello.", background=True)
            assert client.responses.cancel(made.id).status == "cancelled"
            assert client.responses.cancel(made.id).status == "cancelled"
        assert client.responses.retrieve(made.id).status == "cancelled"
        assert Job.objects.get().status == "canceled"

    def test_it_that_is_canceled_while_it_streams_ends_with_an_error(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [Script([delta(content="Hel"), threading.Event()])]
        with working():
            stream = iter(client.responses.create(model="tiny", input="x", background=True, stream=True))
            while next(stream).type != "response.output_text.delta":
                pass
            client.responses.cancel(_id())
            end: Any = next(stream)
        assert (end.type, end.code) == ("error", "job_canceled")

    def test_who_waits_for_one_in_the_foreground_and_goes_cancels_it(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [Script([threading.Event()])]
        with working(), pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=1).responses.create(model="tiny", input="Say hello.")
        farm.until(lambda: Job.objects.get().status == "canceled", what="the cancel")


class TestAConversation:
    def test_has_all_that_was_written_before(self, client: openai.OpenAI, model: ModelServer, working: Working) -> None:
        model.scripts = [whole(**completion(text)) for text in ("One.", "Two.", "Three.")]
        with working():
            last = None
            for question in ("1?", "2?", "3?"):
                last = client.responses.create(
                    model="tiny", input=question, previous_response_id=last.id if last else openai.omit
                )
        assert last is not None
        turns = [("user", "1?"), ("assistant", "One."), ("user", "2?"), ("assistant", "Two."), ("user", "3?")]
        assert [(m["role"], m["content"]) for m in model.requests[-1]["messages"]] == turns
        items: list[Any] = list(client.responses.input_items.list(last.id, limit=2))
        assert [item.role for item in reversed(items)] == [role for role, _ in turns]
        assert items[0].content[0].text == "3?"
        first: Any = client.responses.input_items.list(last.id, limit=1, order="asc").data[0]
        assert first.content[0].text == "1?"

    @pytest.mark.parametrize("previous", ["resp_0", "resp_x", "resp_9999", "chatcmpl-1"])
    def test_behind_no_response_is_refused(self, client: openai.OpenAI, working: Working, previous: str) -> None:
        with working(), pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="tiny", input="x", previous_response_id=previous)
        assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")
        assert not Job.objects.exists()

    def test_behind_somebody_elses_or_one_that_has_no_answer_is_refused(
        self, client: openai.OpenAI, working: Working, ada: User
    ) -> None:
        payload = {"path": "responses", "body": {"model": "tiny", "input": "x"}}
        others = jobs.submit("openai", payload, owner=farm.user("eve"))
        own = jobs.submit("openai", payload, owner=ada)
        with working():
            for job, code in ((others, "previous_response_not_found"), (own, "invalid_value")):
                with pytest.raises(openai.BadRequestError) as caught:
                    client.responses.create(model="tiny", input="x", previous_response_id=f"resp_{job.pk}")
                assert caught.value.code == code


class TestARepeat:
    def test_with_the_same_key_is_the_same_response(
        self, client: openai.OpenAI, model: ModelServer, working: Working, ada: User
    ) -> None:
        model.scripts = [whole(**completion("Once."))]
        again = {"Idempotency-Key": "one"}
        with working(), ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(client.responses.create, model="tiny", input="x", extra_headers=again) for _ in "ab"]
            assert {call.result(30).output_text for call in calls} == {"Once."}
        assert Job.objects.count() == 1
        _, other = accounts.create_token(farm.user("eve"), name="openai", scopes=["submit"])
        with pytest.raises(openai.NotFoundError):
            client.with_options(api_key=other).responses.retrieve(_id())


def _id() -> str:
    return f"resp_{Job.objects.get().pk}"


def _completed(client: openai.OpenAI, job_id: int) -> Any:
    response = client.responses.retrieve(f"resp_{job_id}")
    return response if response.status == "completed" else None
