"""Every payload there is, through the real address, with the right signature, in three orders: the same tables."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from scheduling import operations as scheduling
from tests.servers import serve
from tests.webhook_samples import FOLDER, Sample, clear, samples, written
from tests.webhooks.edges.sender import Given, post, signed
from webhooks.domain.deliveries import Source
from webhooks.models import Delivery
from webhooks.operations import drain_sandbox_queue

MANIFEST = {entry["file"]: entry for entry in json.loads((FOLDER / "manifest.json").read_text())["files"]}
SIGNED_WITHIN_S = 250


@pytest.fixture
def old_mail(transactional_db: None) -> Iterator[httpx.Client]:
    """A client of a server that takes Atlassian's events of any year: these were captured long ago."""
    with (
        serve(WEBHOOKS_PER_MINUTE="1000000", WEBHOOKS_ATLASSIAN_OLDEST_S="1e10") as server,
        httpx.Client(base_url=server.url, timeout=20) as client,
    ):
        yield client


@pytest.mark.usefixtures("transactional_db")
class TestEveryPayload:
    def test_ends_processed_or_ignored_with_the_same_tables_in_any_order(
        self, old_mail: httpx.Client, kept_secrets: dict[Source, str]
    ) -> None:
        began = datetime.now(UTC)
        requests = [_request(sample, kept_secrets, began) for sample in samples() if sample.source in set(Source)]
        assert len(requests) == len(MANIFEST)
        shuffled = random.Random(5).sample(requests, len(requests))
        given, reversed_, mixed = (
            _after(old_mail, order) for order in (requests, requests[::-1], [*shuffled, *shuffled[:30]])
        )
        assert set(given.outcomes.values()) <= {"processed", "ignored"}, given.notes
        assert (reversed_.outcomes.keys(), mixed.outcomes.keys()) == (given.outcomes.keys(), given.outcomes.keys())
        for table, rows in given.tables.items():
            assert reversed_.tables[table] == rows, table
            assert mixed.tables[table] == rows, table
        assert all(given.tables.values()), "a table that no payload writes"


class _Result:
    """What lies in the tables after some requests, and how each delivery ended."""

    def __init__(self) -> None:
        rows = list(Delivery.objects.values("pk", "source", "delivery_id", "status", "note"))
        self.outcomes = {(row["source"], row["delivery_id"]): row["status"] for row in rows}
        self.notes = [row for row in rows if row["status"] not in {"processed", "ignored"}]
        names = {row["pk"]: (row["source"], row["delivery_id"]) for row in rows}
        self.tables = {
            table: sorted((_named(line, names) for line in lines), key=repr) for table, lines in written().items()
        }


def _after(client: httpx.Client, requests: Sequence[Given]) -> _Result:
    clear()
    Delivery.objects.all().delete()
    answers = [post(client, given) for given in requests]
    assert {answer.status_code for answer in answers} == {200}, [a.text for a in answers if a.status_code != 200]
    while scheduling.run_due():
        pass
    drain_sandbox_queue()
    return _Result()


def _named(row: dict[str, Any], names: dict[int, tuple[str, str]]) -> dict[str, Any]:
    """A row without what the order decides: ids of deliveries are their names."""
    return {name: names.get(value, value) if name == "delivery_id" else value for name, value in row.items()}


def _request(sample: Sample, secrets: dict[Source, str], began: datetime) -> Given:
    """The payload as its sender would post it; each has its own moment of signing, whatever the order."""
    source, entry = Source(sample.source), MANIFEST[sample.file]
    body = sample.body
    if source is Source.STRIPE:  # several of these share one masked id
        body = json.dumps(json.loads(body) | {"id": f"evt_{sample.n}"}).encode()
    event = entry["event"] or ""
    headers = entry.get("headers", {})
    given = signed(
        source,
        body,
        secrets[source],
        event_type=event,
        delivery_id=headers.get("X-GitHub-Delivery") or headers.get("svix-id") or f"msg_{sample.n}",
        now=began + timedelta(seconds=sample.n - SIGNED_WITHIN_S),
        **headers,
    )
    named = source is Source.CONFLUENCE and "event" not in json.loads(body) and event and event != "test"
    return replace(given, query={"event": event} if named else {})
