"""Secrets at the real addresses: none, several, retired ones; the tokens of sandboxes; limits; trouble of our own."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import httpx
import pytest
from django.db import connection

from postgres import clock
from tests import farm
from tests.servers import serve
from tests.webhooks.edges.sender import post, sample, signed
from webhooks.domain.deliveries import Source
from webhooks.errors import BadSecret
from webhooks.models import Delivery, Refusal, SandboxToken, Secret
from webhooks.operations import create_token, revoke_tokens, secrets

GITHUB = Source.GITHUB


@pytest.fixture(autouse=True)
def _no_secrets(transactional_db: None) -> None:
    Secret.objects.all().delete()


def reasons() -> list[str]:
    return sorted(Refusal.objects.values_list("reason", flat=True))


def send(client: httpx.Client, secret: str, number: int = 0, source: Source = GITHUB) -> int:
    body, event_type = sample(source, number)
    return post(client, signed(source, body, secret, event_type=event_type)).status_code


class TestSecrets:
    def test_without_one_everything_is_refused_so_that_the_sender_comes_again(self, client: httpx.Client) -> None:
        body, event_type = sample(GITHUB)
        answer = post(client, signed(GITHUB, body, "never-added", event_type=event_type))
        assert (answer.status_code, answer.json()["error"]) == (503, "no_secret")
        assert answer.headers["Retry-After"] == "300"
        assert reasons() == ["no_secret"]

    def test_two_live_at_once_and_each_delivery_says_which_it_was(self, client: httpx.Client) -> None:
        (old, first), (new, second) = secrets.add(GITHUB), secrets.add(GITHUB)
        assert [send(client, first, 1), send(client, second, 2)] == [200, 200]
        assert list(Delivery.objects.order_by("id").values_list("secret", flat=True)) == [old.pk, new.pk]
        assert all(secret.last_used_at for secret in Secret.objects.all())

    def test_a_new_one_is_known_at_once_and_a_retired_one_opens_nothing_at_once(self, client: httpx.Client) -> None:
        """The server has both in its memory; what it knows is checked where the delivery is stored."""
        old, first = secrets.add(GITHUB)
        assert send(client, first, 1) == 200
        _, second = secrets.add(GITHUB)
        assert send(client, second, 2) == 200
        secrets.retire(old.pk)
        assert send(client, first, 3) == 401
        assert send(client, second, 4) == 200
        assert Delivery.objects.count() == 3

    def test_rotation_leaves_the_old_one_open_for_its_grace(self, client: httpx.Client) -> None:
        old, first = secrets.add(GITHUB)
        _, second = secrets.rotate(GITHUB, grace=timedelta(hours=1))
        assert [send(client, first, 1), send(client, second, 2)] == [200, 200]
        Secret.objects.filter(pk=old.pk).update(retired_at=clock.now())
        assert [send(client, first, 3), send(client, second, 4)] == [401, 200]

    def test_that_of_one_source_opens_no_other(self, client: httpx.Client) -> None:
        _, jira = secrets.add(Source.JIRA)
        secrets.add(GITHUB)
        assert send(client, jira) == 401


class TestSandboxTokens:
    PATH = "/api/sandbox/hook-events"
    BODY = {"hook_event_name": "TestEvent", "session_id": "s", "decision": "block", "continue": False}

    def test_open_the_hooks_and_are_answered_with_nothing_to_read(self, client: httpx.Client) -> None:
        _, token = create_token("box-1")
        answers = [
            client.post(self.PATH, json=self.BODY, headers={"Authorization": f"Bearer {token}"}) for _ in range(2)
        ]
        assert [(answer.status_code, answer.content) for answer in answers] == [(200, b"{}")] * 2
        delivery = Delivery.objects.get()
        assert (delivery.sandbox, delivery.secret_id, delivery.duplicates) == ("box-1", None, 1)
        assert token not in str(delivery.headers)
        assert SandboxToken.objects.get().last_used_at is not None

    def test_speak_for_their_sandbox_alone(self, client: httpx.Client) -> None:
        """An id that no signature vouches for takes nobody else's: the genuine one was lost as a duplicate."""
        given = {"Webhook-Id": "msg_1"}
        for sandbox in ("box-1", "box-2"):
            headers = given | {"Authorization": f"Bearer {create_token(sandbox)[1]}"}
            assert client.post(self.PATH, json=self.BODY, headers=headers).status_code == 200
        _, secret = secrets.add(Source.SANDBOX_HOOKS)
        genuine = signed(Source.SANDBOX_HOOKS, self.BODY, secret, delivery_id="msg_1")
        assert post(client, genuine).status_code == 200
        assert list(Delivery.objects.order_by("id").values_list("delivery_id", "sandbox", "duplicates")) == [
            ("box-1/msg_1", "box-1", 0),
            ("box-2/msg_1", "box-2", 0),
            ("msg_1", None, 0),
        ]

    @pytest.mark.parametrize("made", ["revoked", "expired", "unknown", "long", "none"])
    def test_that_are_over_or_none_open_nothing(self, client: httpx.Client, made: str) -> None:
        secrets.add(Source.SANDBOX_HOOKS)
        past = clock.now() - timedelta(seconds=1)
        _, token = create_token("box-1", expires_at=past if made == "expired" else None)
        if made == "revoked":
            assert revoke_tokens("box-1") == 1
        token = {"unknown": "sbx_x", "long": "x" * 5000, "none": "."}.get(made, token)
        answer = client.post(self.PATH, json=self.BODY, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401
        assert not Delivery.objects.exists()

    def test_open_no_other_address(self, client: httpx.Client) -> None:
        secrets.add(Source.SANDBOX_COMPLETION)
        _, token = create_token("box-1")
        headers = {"Authorization": f"Bearer {token}"}
        assert client.post("/api/sandbox/completion", json={"type": "x"}, headers=headers).status_code == 401


class TestTroubleOfOurOwn:
    def test_is_503_and_over_when_it_is_over(self, client: httpx.Client) -> None:
        """The table is gone for a while, as in a migration that went wrong."""
        _, secret = secrets.add(GITHUB)
        assert send(client, secret, 1) == 200
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE webhooks_delivery RENAME TO elsewhere")
        try:
            body, event_type = sample(GITHUB, 2)
            answer = post(client, signed(GITHUB, body, secret, event_type=event_type))
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE elsewhere RENAME TO webhooks_delivery")
        assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
        assert int(answer.headers["Retry-After"]) > 0
        assert send(client, secret, 2) == 200

    def test_is_a_secret_that_cannot_be_read(self, client: httpx.Client) -> None:
        row, secret = secrets.add(GITHUB)
        Secret.objects.filter(pk=row.pk).update(sealed=b"sealed under another key")
        answer = post(client, signed(GITHUB, {"n": 1}, secret))
        assert (answer.status_code, answer.json()["error"]) == (503, "cannot_open")


@pytest.mark.usefixtures("transactional_db")
class TestLimits:
    def test_deny_with_the_time_to_come_again_and_never_grant_more(self) -> None:
        """60 a minute of Clerk from one address; 150 come at once over many connections."""
        _, clerk = secrets.add(Source.CLERK)
        _, jira = secrets.add(Source.JIRA)
        with serve(WEBHOOKS_PER_MINUTE="60") as server, httpx.Client(base_url=server.url, timeout=20) as client:
            requests = [signed(Source.CLERK, *_body(n), clerk) for n in range(150)]
            with ThreadPoolExecutor(16) as pool:
                answers = list(pool.map(lambda given: post(client, given), requests))
            other = send(client, jira, source=Source.JIRA)
        taken = [answer.status_code for answer in answers].count(200)
        denied = [answer for answer in answers if answer.status_code == 429]
        assert taken + len(denied) == 150
        assert 30 <= taken <= 75  # 60, what comes in meanwhile, less a block that was taken and not spent
        assert all(1 <= int(answer.headers["Retry-After"]) <= 60 for answer in denied)
        assert denied[0].json()["error"] == "rate_limited"
        assert Delivery.objects.filter(source=Source.CLERK).count() == taken
        assert other == 200

    def test_of_what_is_unsigned_takes_nothing_from_what_is_signed(self) -> None:
        """A flood from the address that the senders share: 60 of each kind a minute may come from there."""
        _, clerk = secrets.add(Source.CLERK)
        secrets.add(Source.SANDBOX_HOOKS)
        _, token = create_token("box-1")
        wrong, hook = secrets.add(Source.CLERK)[1], {"hook_event_name": "Stop", "session_id": "s"}
        Secret.objects.filter(fingerprint=Secret.objects.latest("pk").fingerprint).delete()
        with serve(WEBHOOKS_PER_MINUTE="60") as server, httpx.Client(base_url=server.url, timeout=20) as client:
            bearer = {"Authorization": f"Bearer {token}"}
            statuses = [client.post("/api/sandbox/hook-events", json=hook, headers=bearer).status_code]
            flood = [signed(Source.CLERK, *_body(n), wrong) for n in range(150)]
            nonsense = [{"Authorization": f"Bearer {n}"} for n in range(150)]
            with ThreadPoolExecutor(16) as pool:
                refused = [answer.status_code for answer in pool.map(lambda given: post(client, given), flood)]
                unknown = list(pool.map(lambda given: _status(client, hook, given), nonsense))
            statuses += [post(client, signed(Source.CLERK, *_body(n), clerk)).status_code for n in range(40)]
            statuses += [client.post("/api/sandbox/hook-events", json=hook | {"n": 1}, headers=bearer).status_code]
        assert set(statuses) == {200}
        for answers in (refused, unknown):
            assert set(answers) == {401, 429}
        assert refused.count(429) > 60


def _status(client: httpx.Client, body: dict[str, str], headers: dict[str, str]) -> int:
    return client.post("/api/sandbox/hook-events", json=body, headers=headers).status_code


def _body(number: int) -> tuple[dict[str, object]]:
    return ({"type": "test.event", "n": number},)


def test_a_secret_that_two_add_at_once_is_one_and_the_other_is_refused() -> None:
    """As by a button that was pressed twice: it was an error of the server."""
    add = partial(secrets.add, GITHUB, "a secret that somebody wrote themselves")
    with pytest.raises(BadSecret):
        farm.meanwhile(add, add)
    assert Secret.objects.count() == 1
