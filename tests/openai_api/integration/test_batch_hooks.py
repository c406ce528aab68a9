"""Hooks decide about each line of a batch, and about each answer, and their failure costs no line."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from jobs import operations as jobs
from jobs.models import Job
from openai_api import domain, operations
from openai_api.errors import CallRefused, HookFailed
from openai_api.models import HookDecision, Slice
from openai_api.operations import call_hooks, files
from tests import documented
from tests.openai_api.batching import answer, content, line, made, offering, step, text, to_the_end

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def hooks() -> Iterator[list[list[call_hooks.Hook]]]:
    """The hooks of the site, which a test adds to."""
    both = [call_hooks.BEFORE, call_hooks.AFTER]
    known = [[*each] for each in both]
    yield both
    for each, before in zip(both, known, strict=True):
        each[:] = before


def no_third(call: call_hooks.HookedCall) -> Any:
    if call.body["input"] == "word 3":
        raise CallRefused("Not the third.")
    return {**call.body, "input": call.body["input"].upper()} if call.body["input"] == "word 1" else None


def no_second(call: call_hooks.HookedCall, answer: Any) -> Any:
    assert answer == {"echo": call.body["input"]}
    if answer == {"echo": "word 2"}:
        raise CallRefused("Not the second.")
    return {"echo": "another"} if answer == {"echo": "word 0"} else None


@pytest.mark.usefixtures("hooks")
class TestABatch:
    def test_has_what_hooks_changed_and_refused_in_its_files(self, ada: User) -> None:
        call_hooks.before_call()(no_third)
        call_hooks.after_call()(no_second)
        worker = offering("tiny")
        batch = to_the_end(made(text(*map(line, range(5))), user=ada), by=worker)
        assert (batch.status, batch.total, batch.completed, batch.failed) == ("completed", 5, 4, 1)
        answers = {each["custom_id"]: each["response"]["body"]["echo"] for each in content(batch.output_file)}
        assert answers == {"line-0": "another", "line-1": "WORD 1", "line-4": "word 4"}
        errors = {each["custom_id"]: (each["id"], each["response"]) for each in content(batch.error_file)}
        second = Slice.objects.get().job_ids[2]
        assert [(name, line_id) for name, (line_id, _) in errors.items()] == [
            ("line-2", f"batch_req_{second}"), ("line-3", "batch_req_0")
        ]  # fmt: skip
        assert [
            (answer["status_code"], answer["body"]["error"]["code"], answer["body"]["error"]["message"])
            for _, answer in errors.values()
        ] == [(400, "call_refused", "Not the second."), (400, "call_refused", "Not the third.")]
        assert Job.objects.count() == 4

    def test_waits_while_a_hook_fails_and_says_for_which(self, ada: User) -> None:
        failing = [True]

        def fragile(call: call_hooks.HookedCall) -> None:
            if failing:
                raise ValueError("no connection")

        call_hooks.before_call()(fragile)
        worker = offering("tiny")
        batch = step(made(text(line(0)), user=ada))
        assert (batch.status, batch.submitted) == ("in_progress", 0)
        assert "fragile did not decide about this call in time, or failed" in batch.note
        failing.clear()
        assert to_the_end(batch, by=worker).completed == 1

    def test_goes_on_with_answers_that_were_not_decided_about(self, ada: User) -> None:
        seen: list[str] = []

        def once(call: call_hooks.HookedCall, answer: Any) -> None:
            seen.append(answer["echo"])
            if answer["echo"] == "word 1" and seen.count("word 1") == 1:
                raise ValueError("no connection")

        call_hooks.after_call()(once)
        worker = offering("tiny")
        batch = made(text(*map(line, range(3))), user=ada)
        batch = step(batch)
        answer(worker)
        batch = step(batch)
        assert batch.is_live
        assert to_the_end(batch, by=worker).completed == 3
        assert (seen.count("word 0"), seen.count("word 1")) == (1, 2)

    def test_takes_several_steps_over_answers_of_a_slow_hook(self, ada: User) -> None:
        call_hooks.after_call()(no_second)
        worker = offering("tiny")
        batch = made(text(*map(line, range(2))), user=ada)
        batch = step(batch)
        answer(worker)
        assert files.decide(batch, until=0.0) is False
        assert not HookDecision.objects.exists()
        assert to_the_end(batch, by=worker).completed == 2


@pytest.mark.usefixtures("hooks")
def test_a_hook_that_hangs_for_many_calls_is_not_asked_by_more_than_it_has_places(ada: User) -> None:
    end, running = threading.Event(), list[int]()

    def hang(call: call_hooks.HookedCall) -> None:
        running.append(1)
        end.wait(20)

    call_hooks.before_call(timeout_s=0.2)(hang)
    [hook] = call_hooks.BEFORE[-1:]
    call = call_hooks.HookedCall(path="embeddings", model="tiny", body={}, user=ada, token_id=None)
    for _ in range(call_hooks.AT_ONCE + 2):
        with pytest.raises(HookFailed):
            hook.ask(call, check=lambda body: body)
    assert len(running) == call_hooks.AT_ONCE
    end.set()


@pytest.mark.usefixtures("hooks")
def test_the_printed_hooks_refuse_and_hide_numbers_of_cards(ada: User) -> None:
    exec(documented.block("front-door.md", "import re"), {"__name__": "printed"})
    call = domain.call("completions", {"model": "tiny", "prompt": "Pay with 4111 1111 1111 1111."})
    with pytest.raises(CallRefused, match="Card numbers"):
        call_hooks.before(call, user=ada, token_id=None)
    offering("tiny")
    body = {"model": "tiny", "prompt": "Which card?"}
    made = operations.submit(domain.call("completions", body), user=ada)
    job = jobs.find(made.job_id)
    assert job is not None
    call_hooks.decide(job, {"choices": [{"text": "4111-1111-1111-1111, of course."}]})
    assert HookDecision.objects.get().answer == {"choices": [{"text": "[card], of course."}]}
