"""A call by a token that the process remembers is answered as one that looks it up, and asks the database less."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts import operations as accounts
from accounts.models import ApiToken
from jobs.models import Job, Queue, Upload, Worker
from jobs.operations import quotas
from openai_api.operations import names
from tests import farm
from tests.openai_api.integration.test_operations import offering

pytestmark = pytest.mark.django_db(transaction=True)
BODY = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "stream": True, "temperature": 0}
Change = Callable[[ApiToken], object]


def _call(key: str, body: Any = BODY, **headers: str) -> tuple[int, str]:
    """Status, and the code of the refusal if it is one."""
    client = Client(headers={"Authorization": f"Bearer {key}", **headers})
    answer = client.post("/v1/chat/completions", json.dumps(body), content_type="application/json")
    refusal = answer.json().get("error", {})
    return answer.status_code, refusal.get("code", "")


@pytest.fixture
def token() -> tuple[ApiToken, str]:
    """A token that is remembered, and its key."""
    offering("tiny")
    names.forget()
    quotas.WAITING.forget()
    made = accounts.create_token(farm.user(), name="tests")
    for _ in range(2):  # the first notes its use
        assert _call(made[1]) == (202, "")
    return made


def test_a_call_makes_three_statements_and_has_them_published(token: tuple[ApiToken, str]) -> None:
    with CaptureQueriesContext(connection) as captured:
        _call(token[1])
    named = [re.match(r"/\* (\S+) \*/|(\w+)", query["sql"]) for query in captured.captured_queries]
    statements = [each and (each[1] or each[2]) for each in named]
    assert [one for one in statements if one != "scheduling.hasten"] == [
        "ratelimits.take_all", "jobs.offered_models", "jobs.submit_one", "NOTIFY"
    ]  # fmt: skip


def _revoked(token: ApiToken) -> None:
    accounts.revoke_token(token.pk, by=None)


def _switched_off(token: ApiToken) -> None:
    User.objects.filter(pk=token.user_id).update(is_active=False)


@pytest.mark.parametrize("change", [_revoked, _switched_off])
@pytest.mark.parametrize(
    "headers", [{}, {"Idempotency-Key": "one"}, {"X-Cache": "exact"}, {"X-Stainless-Retry-Count": "1"}]
)
def test_a_token_that_opens_nothing_any_more_makes_no_call(
    token: tuple[ApiToken, str], change: Change, headers: dict[str, str]
) -> None:
    change(token[0])
    assert _call(token[1], **headers) == (401, "unauthorized")
    assert Job.objects.count() == 2


def test_a_call_of_which_only_the_person_has_changed_is_made(token: tuple[ApiToken, str]) -> None:
    User.objects.filter(pk=token[0].user_id).update(first_name="Ada")
    assert _call(token[1]) == (202, "")
    assert Job.objects.count() == 3


@pytest.mark.parametrize("size", [100, 3_000_000])  # in memory, and on the disk
def test_a_sound_of_whose_caller_the_person_has_changed_is_sent_whole(token: tuple[ApiToken, str], size: int) -> None:
    User.objects.filter(pk=token[0].user_id).update(first_name="Ada")
    client = Client(headers={"Authorization": f"Bearer {token[1]}"})
    form = {"model": "tiny", "file": ContentFile(b"." * size, name="a.wav")}
    assert client.post("/v1/audio/transcriptions", form).status_code == 202
    [kept] = Upload.objects.all()
    with default_storage.open(kept.stored_as) as stored:
        assert (kept.size, len(stored.read())) == (size, size)


def test_a_call_of_a_model_that_is_offered_no_more_is_refused(token: tuple[ApiToken, str]) -> None:
    Worker.objects.update(drained_at=farm.now())
    assert _call(token[1]) == (404, "model_not_found")


def test_a_call_whose_queue_somebody_deleted_is_refused(token: tuple[ApiToken, str]) -> None:
    Queue.objects.filter(name="openai.tiny").delete()
    assert _call(token[1]) == (400, "unknown_queue")
    assert Job.objects.count() == 2
