"""The database's clock is set forward: by a server of time, or since another server took over."""

import os
import time
import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F

from observing.numbers import FunctionCounts
from scheduling.cluster.dispatcher import Dispatcher
from scheduling.cluster.process_group import Pulse
from scheduling.domain.calls import Kind
from scheduling.models import Cluster
from scheduling.operations import clusters

pytestmark = pytest.mark.django_db(transaction=True)
A_MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def server_that_has_run_for_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence means nothing before; that of the tests may have begun a moment ago."""
    monkeypatch.setattr(clusters, "SILENT_S", 1.0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep_until(pg_postmaster_start_time() + interval '1.1 s')")


@pytest.fixture
def steady() -> Dispatcher:
    """A cluster that has reported in time for as long as others may be silent."""
    made = Dispatcher(
        cluster_id=uuid.uuid4(), kind=Kind.ACTION, queues=None, workers=1, supervisor=os.getpid(), pulse=Pulse(),
        counts=FunctionCounts(1),
    )  # fmt: skip
    made._begin()
    made._report()
    made._steady_since = time.monotonic() - clusters.SILENT_S
    return made


@pytest.fixture
def other() -> uuid.UUID:
    """Another one, that has just reported."""
    cluster_id = uuid.uuid4()
    clusters.begin(cluster_id, role="actions")
    Cluster.objects.update(last_seen_at=F("started_at"))
    return cluster_id


def test_a_clock_that_jumps_takes_nothing_from_who_reported_a_moment_before(
    steady: Dispatcher, other: uuid.UUID
) -> None:
    Cluster.objects.update(last_seen_at=F("last_seen_at") - A_MINUTE)
    assert steady._seen_at is not None
    steady._seen_at -= A_MINUTE
    steady._sweep()
    assert not Cluster.objects.exclude(ended_at=None).exists()


def test_one_that_is_silent_is_given_up(steady: Dispatcher, other: uuid.UUID) -> None:
    Cluster.objects.filter(pk=other).update(last_seen_at=F("last_seen_at") - A_MINUTE)
    steady._sweep()
    assert Cluster.objects.exclude(ended_at=None).get().pk == other
