"""Views and routes under limits: who is let in, and what the others are told."""

import json
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import AsyncClient, Client, RequestFactory

from core import api
from ratelimits import errors, http, operations
from ratelimits.models import Bucket
from ratelimits.operations import Config, FixedWindow, TokenBucket

pytestmark = pytest.mark.django_db(transaction=True)
THOUSAND_DAYS = 1000 * 86400


class TestADecoratedView:
    def test_lets_in_as_many_as_the_limit_grants_and_tells_the_others(self, client: Client) -> None:
        first, second, third = (client.get("/t/plain") for _ in range(3))
        assert (first.status_code, first.content) == (200, b"done")
        assert first.headers["RateLimit-Policy"] == f'"test/two";q=2;w={THOUSAND_DAYS}'
        assert first.headers["RateLimit"] == '"test/two";r=1'
        assert second.headers["RateLimit"] == '"test/two";r=0'
        wait = int(third.headers["Retry-After"])
        assert THOUSAND_DAYS / 2 - 60 < wait <= THOUSAND_DAYS / 2
        assert third.status_code == 429
        assert third.headers["RateLimit"] == f'"test/two";r=0;t={wait}'
        assert third.headers["RateLimit-Policy"] == first.headers["RateLimit-Policy"]
        assert third.headers["Content-Type"] == "application/json"
        assert third.json() == {
            "error": "rate_limited", "message": "Too many requests: try again in 500 days.", "retry_after": wait,
        }  # fmt: skip

    def test_counts_for_who_is_logged_in_and_else_for_the_address(self, client: Client) -> None:
        for _ in range(2):
            client.get("/t/plain")
        assert client.get("/t/plain").status_code == 429
        assert client.get("/t/plain", REMOTE_ADDR="192.0.2.7").status_code == 200
        ada = User.objects.create_user("ada")
        client.force_login(ada)
        assert client.get("/t/plain").status_code == 200
        assert set(Bucket.objects.values_list("key", flat=True)) == {
            "address:127.0.0.1", "address:192.0.2.7", f"user:{ada.pk}",
        }  # fmt: skip

    async def test_may_be_async(self, async_client: AsyncClient) -> None:
        answers = [await async_client.get("/t/async?who=ada") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert answers[2].json()["error"] == "rate_limited"
        assert (await async_client.get("/t/async?who=bob")).headers["RateLimit"] == '"test/two";r=1'

    def test_may_be_a_class(self, client: Client) -> None:
        assert [client.get("/t/class").status_code for _ in range(3)] == [200, 200, 429]

    def test_may_have_two_limits_and_counts_of_its_own(self, client: Client) -> None:
        """Of a part of a second and of half a token only whole numbers can be told."""
        answer = client.get("/t/heavy?count=2")
        own = "tests.ratelimits.edges.site.heavy"
        assert answer.headers["RateLimit-Policy"] == f'"{own}";q=15;w=1, "test/hourly";q=5;w=3600'
        assert answer.headers["RateLimit"] == f'"{own}";r=1, "test/hourly";r=4'

    def test_is_not_called_when_the_limit_cannot_be_asked(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fail closed: without the database nothing is granted."""
        from django.db import connection

        def unreachable(*_: object) -> None:
            raise ConnectionError("no database")

        with connection.execute_wrapper(unreachable), pytest.raises(ConnectionError):
            client.get("/t/plain")


class TestARouteOfNinja:
    @pytest.mark.parametrize("path", ["/t/api/decorated?n=7", "/t/api/decorated-async"])
    def test_may_be_decorated(self, client: Client, path: str) -> None:
        answers = [client.get(path) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert answers[0].headers["RateLimit"] == '"test/two";r=1'
        assert answers[2].json()["error"] == "rate_limited"


class TestAnAddress:
    @pytest.mark.parametrize(
        ("remote", "key"),
        [
            ("192.0.2.7", "address:192.0.2.7"),
            ("::ffff:192.0.2.7", "address:192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "address:2001:db8:1:2::/64"),
            ("2001:db8:1:2::ffff", "address:2001:db8:1:2::/64"),
            ("", "address:unknown"),
            ("/run/web.sock", "address:unknown"),
        ],
    )
    def test_of_ipv6_is_the_network_that_one_customer_has(self, remote: str, key: str) -> None:
        assert http.address(RequestFactory().get("/", REMOTE_ADDR=remote)) == key

    def test_is_not_taken_from_a_header_that_anybody_can_send(self) -> None:
        request: HttpRequest = RequestFactory().get("/", headers={"X-Forwarded-For": "198.51.100.1"})
        assert http.address(request) == "address:127.0.0.1"


class TestTheHeaderFields:
    """A list of strings with whole numbers as parameters, as RFC 9651 writes them."""

    ITEM = r'"[ !#-\[\]-~]*"(;[a-z]=(0|[1-9][0-9]{0,14}))+'
    LONG = timedelta(days=30_000)

    @pytest.mark.parametrize(
        "config",
        [
            TokenBucket(1e15, timedelta(milliseconds=1)),
            TokenBucket(1e15, LONG, capacity=0.25),
            TokenBucket(1e-6, LONG),
            TokenBucket(0.5, timedelta(milliseconds=1)),
            FixedWindow(3, timedelta(milliseconds=1500), capacity=1e15),
        ],
        ids=str,
    )
    @pytest.mark.parametrize(("ok", "wait"), [(True, None), (False, timedelta.max), (False, timedelta(0))])
    def test_are_well_formed_whatever_the_limit(self, config: Config, ok: bool, wait: timedelta | None) -> None:
        answer = operations.Answer(ok=ok, retry_after=wait, remaining=config.most if ok else None)
        notes = [http.Note(name=name, config=config, answer=answer) for name in ("a/b", "two words")]
        for field, value in http.fields(notes).items():
            assert re.fullmatch(f"{self.ITEM}, {self.ITEM}", value), (field, value)
        policy, quota = http.fields(notes).values()
        assert re.findall(r";([a-z])=", policy) == ["q", "w"] * 2
        assert re.findall(r";([a-z])=", quota) == (["r"] if ok else ["r", "t"]) * 2
        assert ";w=0" not in policy


class TestARefusal:
    def test_rounds_the_wait_up_to_whole_seconds(self) -> None:
        error = errors.RateLimited(name="x", key="secret", retry_after=timedelta(seconds=1, milliseconds=1))
        answer = api.refused(error)
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "2")
        assert json.loads(answer.content) == {
            "error": "rate_limited", "message": "Too many requests: try again in 2 seconds.", "retry_after": 2,
        }  # fmt: skip

    def test_bounds_a_wait_without_end(self) -> None:
        assert errors.seconds(timedelta.max) == 100 * 365 * 86400
        assert errors.seconds(None) == 0
