"""What comes again at the real addresses: stored once, counted, and processed again only if it had gone wrong."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import psycopg
import pytest
from django.db import connection
from psycopg import sql

from postgres import connections
from scheduling import operations as scheduling
from scheduling.models import Due
from tests.farm import until
from tests.servers import serve
from tests.webhooks.edges.sender import Given, post, sample, signed
from webhooks.domain.deliveries import Source, has_unsigned_id
from webhooks.models import Delivery
from webhooks.operations import drain_sandbox_queue

Secrets = dict[Source, str]
UNSIGNED = [source for source in Source if has_unsigned_id(source)]


def right(source: Source, secrets: Secrets, number: int = 0, **options: Any) -> Given:
    body, event_type = sample(source, number)
    return signed(source, body, secrets[source], event_type=event_type, **options)


def status_and_text(answer: httpx.Response) -> tuple[int, str]:
    """The status, and what the body says; of the hooks nothing, whatever became of it."""
    return answer.status_code, answer.json().get("status", "")


@pytest.mark.parametrize("source", Source)
class TestEverySource:
    def test_stores_once_schedules_once_and_counts(
        self, client: httpx.Client, secrets: Secrets, source: Source
    ) -> None:
        given = right(source, secrets)
        answers = [status_and_text(post(client, given)) for _ in range(3)]
        words = ["", "", ""] if source is Source.SANDBOX_HOOKS else ["received", "duplicate", "duplicate"]
        assert answers == [(200, word) for word in words]
        delivery = Delivery.objects.get()
        assert (delivery.duplicates, bytes(delivery.body)) == (2, given.body)
        assert delivery.last_duplicate_at is not None
        assert Due.objects.count() == (0 if source is Source.SANDBOX_TELEMETRY else 1)

    def test_processes_again_what_had_gone_wrong_and_nothing_else(
        self, client: httpx.Client, secrets: Secrets, source: Source
    ) -> None:
        given = right(source, secrets)
        post(client, given)
        seen = []
        for status in ("dead", "failed", "ignored"):
            waits = datetime.now(UTC) if status == "failed" else None
            Delivery.objects.update(
                status=status, note="x", attempts=5, ended_at=datetime.now(UTC), next_attempt_at=waits
            )
            assert post(client, given).status_code == 200
            seen.append(Delivery.objects.values_list("status", "attempts").get())
        assert seen == [("received", 0), ("received", 0), ("ignored", 5)]
        scheduling.run_due()
        drain_sandbox_queue()
        assert Delivery.objects.get().tries <= 1

    def test_is_answered_the_same_twenty_times_at_once(
        self, client: httpx.Client, secrets: Secrets, source: Source
    ) -> None:
        given = right(source, secrets)
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: status_and_text(post(client, given)), range(20)))
        assert {status for status, _ in answers} == {200}
        if source is not Source.SANDBOX_HOOKS:
            assert sorted(word for _, word in answers) == ["duplicate"] * 19 + ["received"]
        assert Delivery.objects.get().duplicates == 19


class TestBodiesUnderAnotherId:
    @pytest.mark.parametrize("source", UNSIGNED)
    def test_are_the_same_delivery_where_the_id_is_not_signed(
        self, client: httpx.Client, secrets: Secrets, source: Source
    ) -> None:
        """Whoever saw one request could send its body again under a new id."""
        body, event_type = sample(source)
        answers = [
            status_and_text(
                post(client, signed(source, body, secrets[source], event_type=event_type, delivery_id=f"id-{n}"))
            )
            for n in range(3)
        ]
        assert answers == [(200, "received"), (200, "duplicate"), (200, "duplicate")]
        assert Delivery.objects.get().duplicates == 2

    def test_are_the_same_under_another_event_too(self, client: httpx.Client, secrets: Secrets) -> None:
        body, event_type = sample(Source.GITHUB)
        first = signed(Source.GITHUB, body, secrets[Source.GITHUB], event_type=event_type, delivery_id="one")
        other = signed(Source.GITHUB, body, secrets[Source.GITHUB], event_type="push", delivery_id="two")
        assert [status_and_text(post(client, given))[1] for given in (first, other)] == ["received", "duplicate"]
        assert Delivery.objects.get().event_type == event_type

    def test_are_others_where_it_is(self, client: httpx.Client, secrets: Secrets) -> None:
        for number in range(2):
            assert (
                status_and_text(post(client, right(Source.CLERK, secrets, delivery_id=f"m{number}")))[1] == "received"
            )
        assert Delivery.objects.count() == 2

    def test_and_an_id_that_was_signed_cannot_be_changed(self, client: httpx.Client, secrets: Secrets) -> None:
        given = right(Source.CLERK, secrets)
        name = next(name for name in given.headers if re.fullmatch("svix-id", name, re.IGNORECASE))
        assert post(client, replace(given, headers={**given.headers, name: "msg_other"})).status_code == 401


class TestHandshakes:
    @pytest.mark.parametrize(
        ("source", "body", "event_type", "kept_as"),
        [
            (Source.GITHUB, {"zen": "Keep it logically awesome.", "hook_id": 1}, "ping", "ping"),
            (Source.CONFLUENCE, {"test": True}, "", "test"),
        ],
    )
    def test_are_answered_and_kept(
        self,
        client: httpx.Client,
        secrets: Secrets,
        source: Source,
        body: dict[str, Any],
        event_type: str,
        kept_as: str,
    ) -> None:
        assert post(client, signed(source, body, secrets[source], event_type=event_type)).status_code == 200
        scheduling.run_due()
        delivery = Delivery.objects.get()
        assert delivery.event_type == kept_as
        assert delivery.status in {"processed", "ignored"}


@contextmanager
def database_away() -> Iterator[None]:
    """Nobody can connect, and who was connected is cut off: as in a restart of PostgreSQL."""
    name = str(connection.settings_dict["NAME"])
    connection.close()
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format
    with psycopg.connect(connections.conninfo(), dbname="postgres", autocommit=True) as other:
        other.execute(allow(sql.Identifier(name), sql.SQL("false")))
        try:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
                " AND backend_type = 'client backend'",  # who cleans up is nobody's to end
                [name],
            )
            yield
        finally:
            other.execute(allow(sql.Identifier(name), sql.SQL("true")))


class TestADatabaseThatIsAway:
    def test_is_503_before_the_sender_hangs_up_and_it_comes_again(
        self, kept_secrets: Secrets, transactional_db: None
    ) -> None:
        given = [right(Source.GITHUB, kept_secrets, 1), right(Source.STRIPE, kept_secrets, 2)]
        within = {"WEBHOOKS_PER_MINUTE": "1000000", "WEBHOOKS_ANSWER_WITHIN_S": "1"}
        with serve(**within) as server, httpx.Client(base_url=server.url, timeout=20) as client:
            with database_away():
                answers = [post(client, one) for one in given]
                unsigned = client.post(given[0].path, content=b"{}")
            until(lambda: all(post(client, one).status_code == 200 for one in given))
            assert "Traceback" not in server.log
        assert {answer.status_code for answer in [*answers, unsigned]} == {503}
        assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
        assert Delivery.objects.count() == 2
