"""Calls with a token that keeps no content."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts import operations as accounts
from jobs import operations as jobs
from jobs.models import ContentDeletion
from jobs.operations import content
from openai_api.models import HookDecision
from openai_api.operations import call_hooks
from tests import farm
from tests.openai_api.integration.test_operations import offering

pytestmark = pytest.mark.django_db
SAYS = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}]


@pytest.fixture
def client(ada: User) -> Client:
    """Who calls with it."""
    _, key = accounts.create_token(ada, name="private", keep_content=False)
    return Client(headers={"Authorization": f"Bearer {key}"})


def ask(client: Client, **body: Any) -> Any:
    return client.post("/v1/responses", {"model": "tiny", "background": True, **body}, "application/json")


def test_keep_a_response_until_it_was_fetched_and_say_then_why_it_cannot_be_continued(client: Client) -> None:
    worker = offering("tiny")
    first = ask(client, input="Say hello.").json()
    claimed = farm.claim_one(farm.stored_worker(worker))
    farm.succeed(worker, claimed, {"id": first["id"], "object": "response", "output": SAYS, "status": "completed"})
    assert client.get(f"/v1/responses/{first['id']}").json()["output"] == SAYS
    assert ask(client, input="And now?", previous_response_id=first["id"]).status_code == 200
    content.delete_content(job_ids=[claimed.id])
    for answer in (
        ask(client, input="And now?", previous_response_id=first["id"]),
        client.get(f"/v1/responses/{first['id']}"),
        client.get(f"/v1/responses/{first['id']}/input_items"),
    ):
        assert answer.status_code == 410
        assert answer.json()["error"]["code"] == "content_not_kept"
        assert str(claimed.id) in answer.json()["error"]["message"]


def test_are_made_by_no_batch_whose_files_would_keep_it(client: Client) -> None:
    body = {"input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    answer = client.post("/v1/batches", body, "application/json")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input_file_id")
    assert "this token, or the farm, does not" in answer.json()["error"]["message"]


def test_without_an_end_are_not_emptied(client: Client) -> None:
    offering("tiny")
    ask(client, input="Say hello.")
    [deletion] = ContentDeletion.objects.all()
    content.delete_content(job_ids=[deletion.job_id])
    job = jobs.find(deletion.job_id)
    assert job is not None
    assert job.payload["body"]["input"] == "Say hello."


def test_leave_nothing_of_what_hooks_made_of_their_answers(client: Client) -> None:
    worker = offering("tiny")
    ask(client, input="Say hello.")
    claimed = farm.claim_one(farm.stored_worker(worker))
    farm.succeed(worker, claimed, {"output": SAYS, "status": "completed"})
    HookDecision.objects.create(
        job_id=claimed.id, is_decided=True, status=200, answer={"output": SAYS}, notes=["guard refused Hello."]
    )
    content.delete_content(job_ids=[claimed.id])
    decision = HookDecision.objects.get()
    assert (decision.answer, decision.notes) == (None, [])


def test_leave_nothing_where_it_is_deleted_while_a_hook_decides(client: Client) -> None:
    worker = offering("tiny")
    first = ask(client, input="Say hello.").json()
    claimed = farm.claim_one(farm.stored_worker(worker))
    farm.succeed(worker, claimed, {"output": SAYS, "status": "completed"})

    def slow(call: call_hooks.HookedCall, answer: Any) -> Any:
        return answer

    def check(self: Any, *about: Any, check: Any) -> Any:
        content.delete_content(job_ids=[claimed.id])
        return check(self.function(*about))

    hook = call_hooks.Hook(function=slow, timeout_s=2, is_required=True, paths=["responses"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(call_hooks, "AFTER", [hook])
        patched.setattr(call_hooks.Hook, "ask", check)  # its thread would see nothing of a transaction that is open
        assert client.get(f"/v1/responses/{first['id']}").status_code == 410
    assert not HookDecision.objects.exclude(answer=None).exists()
