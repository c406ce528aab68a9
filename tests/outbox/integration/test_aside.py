"""A message that cannot be judged, signed, sent or written is put aside with its reason; the others are sent."""

import asyncio
import socket
import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from outbox import operations
from outbox.models import Attempt, Endpoint, EndpointSecret, Message
from outbox.operations import attempts, endpoints
from outbox.operations.attempts import Claimed
from outbox.operations.http import Client
from tests import farm
from tests.doctor import named_errors
from tests.outbox.receivers import HERE, receiver
from tests.outbox.support import drain, endpoint

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _this_machine(settings: Settings) -> None:
    settings.OUTBOX = {**settings.OUTBOX, "ALLOWED_NETWORKS": HERE, "TIMEOUT_S": 2.0}


def record() -> None:
    operations.record("queue.paused", "queue/gpu", {"queue": "gpu"})


def stands(of: Endpoint) -> tuple[str, str]:
    """The status of its message, and why that is so."""
    row = Message.objects.get(endpoint=of)
    return row.status, row.note


@pytest.mark.parametrize(
    "header",
    ["Mon, 1 Jan 99999999999999999999 00:00:00 GMT", "Mon, 1 Jan 2020 00:00:00 +99999999999999999999", "9" * 5000],
)
def test_a_receiver_whose_retry_after_is_no_moment_costs_the_others_nothing(header: str) -> None:
    with receiver(status=503) as bad, receiver() as good:
        bad.headers["retry-after"] = header
        poisoned, other = endpoint(bad.url()), endpoint(good.url())
        record()
        drain()
    assert stands(poisoned) == ("pending", "It answered 503.")
    assert stands(other) == ("delivered", "")


@pytest.mark.parametrize("per_minute", [5e-324, 1e-12])
def test_an_endpoint_whose_limit_is_none_costs_the_others_nothing(per_minute: float) -> None:
    with receiver() as there:
        poisoned = endpoint(there.url("/bad"), per_minute=per_minute)
        other = endpoint(there.url("/good"))
        record()
        record()
        drain()
    assert {row.status for row in Message.objects.filter(endpoint=other)} == {"delivered"}
    assert {row.status for row in Message.objects.filter(endpoint=poisoned)} <= {"pending", "delivered"}
    assert Message.objects.filter(endpoint=poisoned, status="pending").exists()


def test_a_limit_that_cannot_be_asked_is_said_at_the_message() -> None:
    poisoned = endpoint(per_minute=5e-324)
    record()
    drain()
    status, note = stands(poisoned)
    assert (status, note.startswith("The farm could not send it: This cannot be a rate limit")) == ("pending", True)
    assert Endpoint.objects.get(pk=poisoned.pk).failing_since is not None


def test_a_secret_that_is_no_secret_costs_the_others_nothing() -> None:
    with receiver() as there:
        poisoned, other = endpoint(there.url("/bad")), endpoint(there.url("/good"))
        EndpointSecret.objects.filter(endpoint=poisoned).update(sealed=endpoints._SEALER.seal("whsec_!"))
        record()
        drain()
    assert stands(other) == ("delivered", "")
    assert stands(poisoned)[0] == "pending"
    assert "The farm could not send it" in stands(poisoned)[1]


def test_an_answer_that_cannot_be_written_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = attempts._settlement

    def spoilt(ended: Any, **more: Any) -> Any:
        settlement = plain(ended, **more)
        is_bad = ended.claimed.url.endswith("/bad") and ended.answer.status is not None
        return replace(settlement, error="\x00") if is_bad else settlement

    monkeypatch.setattr(attempts, "_settlement", spoilt)
    with receiver() as there:
        poisoned, other = endpoint(there.url("/bad")), endpoint(there.url("/good"))
        record()
        drain()
    assert stands(other) == ("delivered", "")
    status, note = stands(poisoned)
    assert (status, note.startswith("What it answered could not be kept")) == ("pending", True)
    bad = Message.objects.get(endpoint=poisoned)
    assert f"what became of the message {bad.pk} could not be written: DataError" in named_errors()
    assert Attempt.objects.count() == 2


def test_a_message_that_cannot_be_made_into_a_request_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def headers(claimed: Claimed, **_: Any) -> dict[str, str]:
        raise ValueError(claimed.subject)

    with receiver() as there:
        poisoned = endpoint(there.url("/bad"))
        record()
        monkeypatch.setattr(Claimed, "headers", headers)
        drain()
        assert stands(poisoned) == ("pending", "The farm could not send it: ValueError.")
        assert f"the message {Message.objects.get().pk} could not be sent: ValueError" in named_errors()
        monkeypatch.undo()
        other = endpoint(there.url("/good"))
        record()
        drain()
    assert stands(other) == ("delivered", "")


def test_an_endpoint_is_signed_for_with_no_more_than_five_secrets_however_often_they_are_rotated() -> None:
    row = endpoint()
    made = [endpoints.rotate_secret(row) for _ in range(12)]
    assert endpoints.secrets_of([row.pk])[row.pk] == made[:-6:-1]


def test_all_endpoints_of_one_owner_together_leave_room_for_others(settings: Settings) -> None:
    settings.OUTBOX = {**settings.OUTBOX, "IN_FLIGHT": 40, "IN_FLIGHT_PER_ENDPOINT": 5}
    ann, bob = farm.user("ann"), farm.user("bob")
    of_ann = [endpoint(f"https://ann.example/{number}", owner=ann) for number in range(10)]
    of_bob, of_farm = endpoint("https://bob.example/", owner=bob), endpoint("https://farm.example/")
    for row in (*of_ann, of_bob, of_farm):
        events = [
            operations.NewEvent(type="queue.paused", subject=f"{row.pk}/{number}", data={}) for number in range(5)
        ]
        operations.record_all(events, only=row.pk)
    claimed = Counter(one.url.split("/")[2] for one in attempts.claim(40))
    assert claimed == {"ann.example": 10, "bob.example": 5, "farm.example": 5}
    assert attempts.claim(40) == []
    Message.objects.filter(endpoint=of_ann[0]).update(lease=None)
    assert len(attempts.claim(40)) == Message.objects.filter(endpoint=of_ann[0], lease__isnull=False).count() <= 5


def test_a_name_that_no_server_answers_for_takes_no_thread_from_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up goes on when the attempt that asked for it was given up, and the next attempts ask again."""
    is_over, plain = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host: str, *args: Any, **more: Any) -> Any:
        if host == "unanswered.example":
            is_over.wait(30)
            raise OSError("no server answers")
        return plain(host, *args, **more)

    async def post(hangs: str, works: str) -> str:
        async with Client() as client:
            for _ in range(5):
                attempts = (client.post(hangs, b"", headers={}, timeout_s=0.05) for _ in range(24))
                assert {answer.status for answer in await asyncio.gather(*attempts)} == {None}
            return (await client.post(works, b"", headers={}, timeout_s=10)).error

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with receiver() as there:
        try:
            assert asyncio.run(post("http://unanswered.example/", there.url(host="localhost"))) == ""
        finally:
            is_over.set()


def test_an_endpoint_that_may_get_more_or_moves_gets_at_once_what_was_held_back() -> None:
    with receiver() as old, receiver() as new:
        hooks = endpoint(old.url(), per_minute=0.001)  # one in 16 hours
        for queue in ("a", "b", "c"):
            operations.record("queue.paused", f"queue/{queue}", {"queue": queue})
        drain()
        assert len(old.requests) == 1
        old.status, old.headers = 429, {"retry-after": "3600", "content-length": "0"}
        farm_boss = farm.user("root", is_staff=True, is_superuser=True)
        operations.change(hooks.pk, operations.Wanted(name="x", url=old.url(), events=["*"]), by=farm_boss)
        drain()
        assert len(old.requests) == 3
        operations.change(hooks.pk, operations.Wanted(name="x", url=new.url(), events=["*"]), by=farm_boss)
        drain()
        assert len(new.requests) == 2
