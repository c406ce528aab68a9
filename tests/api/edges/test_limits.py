"""The limit on empty claims, where a real server lies between: who waits, or has a socket, never meets it."""

import json
from datetime import timedelta

import pytest
from websockets.sync.client import ClientConnection

from jobfarm import middleware
from jobs import operations
from ratelimits import operations as limits
from ratelimits.errors import RateLimited
from ratelimits.models import Bucket
from tests.api.edges.callers import PATIENCE_S, Crew

pytestmark = pytest.mark.django_db(transaction=True)
LIMIT = "empty-claims"


def drained(crew: Crew) -> float:
    """Owe so much of the crew's limit that a test cannot wait for it; what was taken of it."""
    limits.limit(LIMIT, key=f"worker:{crew.worker.pk}", count=500, reserve=True)
    return Bucket.objects.get(name=LIMIT).used


def answer_to(socket: ClientConnection, ref: int) -> dict[str, object]:
    """The answer to a claim over the socket; what the server says of itself in between is passed over."""
    socket.send(json.dumps({"type": "claim", "ref": ref}))
    while True:
        message: dict[str, object] = json.loads(socket.recv(timeout=PATIENCE_S))
        if message.get("ref") == ref:
            return message


class TestAClaimThatWouldNotWait:
    def test_is_refused_through_the_wrapper_as_it_is(self, crew: Crew) -> None:
        drained(crew)
        refused = crew.post("claim")
        assert (refused.status_code, refused.json()["error"]) == (429, "rate_limited")
        assert int(refused.headers["Retry-After"]) == refused.json()["retry_after"]


class TestWhoWaits:
    def test_is_never_refused_and_takes_nothing(self, crew: Crew) -> None:
        """Though one wait asks Django at least twice: when it begins, and when it is over."""
        before = drained(crew)
        assert crew.claim(wait=0.2) == []
        operations.submit("chat", {})
        assert len(crew.claim(wait=PATIENCE_S)) == 1
        assert Bucket.objects.get(name=LIMIT).used == before


class TestASocket:
    def test_may_ask_as_often_as_it_likes(self, crew: Crew) -> None:
        before = drained(crew)
        with crew.socket() as socket:
            answers = [answer_to(socket, ref) for ref in range(20)]
        assert answers == [{"type": "claim", "ref": ref, "jobs": [], "drained": False} for ref in range(20)]
        assert Bucket.objects.get(name=LIMIT).used == before

    def test_would_tell_a_refusal_in_the_form_that_http_has(self) -> None:
        error = RateLimited(name=LIMIT, key="worker:7", retry_after=timedelta(seconds=1.2))
        message = {"error": "rate_limited", "message": "Too many requests: try again in 2 seconds.", "retry_after": 2}
        assert middleware.problem(error) == (429, message)
