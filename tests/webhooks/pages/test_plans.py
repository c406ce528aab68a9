"""Filters of the inbox go by indexes: what they read does not grow with what lies before it."""

from collections.abc import Iterator

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoDbBlocker

from postgres import statements
from tests.explained import explain
from tests.webhooks.edges import emptying
from webhooks import live_queries
from webhooks.domain.deliveries import Source
from webhooks.models import Delivery
from webhooks.queries import pages

pytestmark = pytest.mark.django_db

ROWS = 30_000
SECONDS_APART = 100
_FILL = """
    INSERT INTO webhooks_delivery (source, delivery_id, event_type, status, body, body_bytes, body_sha256, headers,
        search, received_at, attempts, tries, ended_at, duplicates, sandbox)
    SELECT CASE WHEN n %% 3 = 0 THEN 'clerk' ELSE 'stripe' END, 'd-' || n, CASE WHEN n = 7 THEN 'rare' ELSE 'usual' END,
        CASE WHEN n = 9 THEN 'ignored' ELSE 'processed' END, '\\x7b7d', 2, sha256(n::text::bytea), '{}',
        to_tsvector('simple', 'common word' || n || CASE WHEN n <= 600 THEN ' old' ELSE '' END),
        moment, 1, 1, moment, 0, CASE WHEN n = 11 THEN 'box-1' END
    FROM (SELECT n, now() - make_interval(secs => (%s - n) * %s) AS moment FROM generate_series(1, %s) AS n) AS made
"""


@pytest.fixture(scope="module", autouse=True)
def _many(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Many deliveries; what the tests look for is among the oldest."""
    with django_db_blocker.unblock():
        emptying.empty()
        with connection.cursor() as cursor:
            cursor.execute(_FILL, [ROWS, SECONDS_APART, ROWS])
            cursor.execute("VACUUM (FULL, ANALYZE) webhooks_delivery")
        yield
        emptying.empty()


def oldest() -> dict[str, str]:
    """A tenth of all."""
    moments = Delivery.objects.order_by("received_at").values_list("received_at", flat=True)
    return {"since": moments[0].isoformat(), "until": moments[3000].isoformat()}


def buffers(sql: str) -> int:
    """How many pages of the tables and indexes a statement touches."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}")
        [plan] = cursor.fetchone()[0]
    touched: int = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    return touched


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, 51), ({"source": "clerk"}, 51), ({"event": "rare"}, 1), ({"status": "ignored"}, 1),
        ({"status": "trouble"}, 0),
        ({"sandbox": "box-1"}, 1), ({"sandbox": "none"}, 0), ({"text": "word13"}, 1), ({"text": "d-15"}, 1),
        ({"text": "common"}, 51), ({"text": "nowhere"}, 0), ({"text": "old"}, 51), ("oldest", 51),
    ],
)  # fmt: skip
def test_a_filter_reads_little_however_much_came_later(given: dict[str, str] | str, found: int) -> None:
    wanted = live_queries.wanted(**(oldest() if isinstance(given, str) else given))
    with CaptureQueriesContext(connection) as queries:
        assert len(pages.arrivals(wanted, before=None, limit=51)) == found
    touched = [buffers(query["sql"]) for query in queries.captured_queries]
    assert max(touched) < 200, (given, touched)  # all of the table are some seven hundred


def test_the_health_of_sources_reads_the_newest_of_each_alone() -> None:
    given = {"sources": [source.value for source in Source], "sample": pages.HEALTH_SAMPLE}
    plan = explain(statements.load("webhooks", "source_health"), given)["Plan"]
    touched = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    assert touched < 500, touched
    by_source = {one.source: one.arrived for one in pages.source_health() if one.arrived}
    assert by_source == {Source.CLERK: min(86400 // SECONDS_APART // 3, 500), Source.STRIPE: 500}
