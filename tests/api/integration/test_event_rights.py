"""A job's event stream while the caller's rights go: between Django's answer and the moment when changes are listened
for, and while Django is asked again."""

import asyncio
from collections.abc import AsyncIterator
from typing import IO, Any, cast

import pytest
import pytest_asyncio
from django.contrib.auth.models import User
from django.http.response import HttpResponseBase

from accounts import operations as accounts
from accounts.models import ApiToken
from core.asgi import Message, Scope
from jobfarm.server import OneHop
from jobs import operations
from jobs.models import Job
from jobs.waiting.events import EventStream
from jobs.waiting.matching import Changes
from jobs.waiting.requests import Django, Handler, Places
from live import hub
from live.feeds import StateFeed
from postgres import connections
from tests import farm
from tests.live.integration.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)


class Gate:
    """Django, whose answers can be held back: what they say was true when it was read."""

    def __init__(self) -> None:
        self._django = OneHop()
        self.send_response = self._django.send_response
        self.read = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def respond(self, scope: Scope, body: IO[bytes]) -> HttpResponseBase:
        """The answer to one request."""
        response = await self._django.respond(scope, body)
        self.read += 1
        await self.may_answer.wait()
        return response


class Caller:
    """Somebody who follows a job; `told` is what came so far."""

    def __init__(self, gate: Gate, job_id: int, key: str) -> None:
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._messages.put_nowait({"type": "http.request", "body": b""})
        self.sent = b""
        scope: dict[str, Any] = {
            "type": "http", "method": "GET", "path": f"/api/v1/jobs/{job_id}/events", "query_string": b"",
            "headers": [(b"authorization", f"Bearer {key}".encode()), (b"host", b"127.0.0.1")],
        }  # fmt: skip
        stream = EventStream(Django(cast("Handler", gate)), asyncio.Event(), Places(), Changes())
        self.streaming = asyncio.create_task(stream.serve(scope, self._messages.get, self._send))

    async def _send(self, message: Message) -> None:
        self.sent += message.get("body", b"")


@pytest.fixture
def gate() -> Gate:
    """Django."""
    return Gate()


@pytest_asyncio.fixture
async def here() -> AsyncIterator[hub.Hub]:
    """The hub, which hears what is touched."""
    running = hub.current()
    await running.ready()
    yield running
    await running.stop()


def _job_and_key() -> tuple[Job, User, str]:
    farm.kind()
    ada = farm.user()
    [job] = farm.submit(1, owner=ada)
    return job, ada, accounts.create_token(ada, name="tests")[1]


async def _is_revoked(here: hub.Hub, user: User, name: str) -> None:
    """The token of this name is revoked, and the hub has told all who listen for that."""
    sent = asyncio.Event()
    listening = here.watch_topics([f"user:{user.pk}"], lambda _: sent.set())
    token = await connections.run(ApiToken.objects.get, user=user, name=name)
    await connections.run(accounts.revoke_token, token.pk, by=user)
    await asyncio.wait_for(sent.wait(), 10)
    listening.close()


async def _is_canceled(here: hub.Hub, job: Job) -> None:
    """The job is canceled, and its feed has handed that on."""
    [feed] = [feed for feed, _ in here._feeds.values() if isinstance(feed, StateFeed)]
    before = feed._version
    await connections.run(operations.cancel, job.pk, by=None)
    await eventually(lambda: feed._version != before and feed._task is None)


class TestATokenThatIsRevoked:
    async def test_while_the_first_answer_is_on_its_way_opens_nothing(self, gate: Gate, here: hub.Hub) -> None:
        job, user, key = await connections.run(_job_and_key)
        gate.may_answer.clear()
        caller = Caller(gate, job.pk, key)
        await eventually(lambda: gate.read == 1)
        await _is_revoked(here, user, "tests")
        gate.may_answer.set()
        await asyncio.wait_for(caller.streaming, 10)
        assert (gate.read, b"data:" in caller.sent) == (2, False)

    async def test_ends_the_stream_before_anything_more_is_told(self, gate: Gate, here: hub.Hub) -> None:
        job, user, key = await connections.run(_job_and_key)
        caller = Caller(gate, job.pk, key)
        await eventually(lambda: b'"pending"' in caller.sent)
        gate.may_answer.clear()
        await _is_revoked(here, user, "tests")
        await eventually(lambda: gate.read == 2)
        await _is_canceled(here, job)
        gate.may_answer.set()
        await asyncio.wait_for(caller.streaming, 10)
        assert b'"canceled"' not in caller.sent

    async def test_and_is_another_costs_nothing_of_what_is_told(self, gate: Gate, here: hub.Hub) -> None:
        job, user, key = await connections.run(_job_and_key)
        await connections.run(accounts.create_token, user, name="spare")
        caller = Caller(gate, job.pk, key)
        await eventually(lambda: b'"pending"' in caller.sent)
        gate.may_answer.clear()
        await _is_revoked(here, user, "spare")
        await eventually(lambda: gate.read == 2)
        await _is_canceled(here, job)
        assert b'"canceled"' not in caller.sent
        gate.may_answer.set()
        await asyncio.wait_for(caller.streaming, 10)
        assert caller.sent.count(b"event: job") == 2
        assert b"event: end" in caller.sent
