"""Workers in processes of their own never run more of a concurrency key than may, and leave no place of it empty."""

from collections import Counter
from collections.abc import Iterator

import pytest
from django.db import connection

from jobs import operations
from jobs.models import Job, Outcome
from tests import farm
from tests.effort import share
from tests.jobs.fair.test_processes import processes

pytestmark = pytest.mark.django_db(transaction=True)
MOST, RUNS_MS = 2, 30


# Whoever claims has seen the ends that they rely on committed, so that these have smaller numbers.
_LOG = """
CREATE TABLE test_log (seq bigserial PRIMARY KEY, key_id integer, change integer);
CREATE FUNCTION test_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO test_log (key_id, change)
    VALUES (OLD.key_id, CASE WHEN TG_OP = 'UPDATE' AND NEW.lease_secret IS NOT NULL THEN 1 ELSE -1 END);
    RETURN NULL;
END $$;
CREATE TRIGGER test_claims AFTER UPDATE ON jobs_live FOR EACH ROW
WHEN ((OLD.lease_secret IS NULL) <> (NEW.lease_secret IS NULL)) EXECUTE FUNCTION test_note();
CREATE TRIGGER test_ends AFTER DELETE ON jobs_live FOR EACH ROW
WHEN (OLD.lease_secret IS NOT NULL) EXECUTE FUNCTION test_note();
"""
_MOST = """
SELECT key_id, max(held)
FROM (SELECT key_id, sum(change) OVER (PARTITION BY key_id ORDER BY seq) AS held FROM test_log) AS log GROUP BY key_id
"""


@pytest.fixture
def log(transactional_db: None) -> Iterator[None]:
    """Each claim and each end or return, with its key, in their order."""
    with connection.cursor() as cursor:
        cursor.execute(_LOG)
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE test_log; DROP FUNCTION test_note CASCADE")


def most_at_once() -> dict[int, int]:
    """How many of each key were in progress at most, by the log."""
    with connection.cursor() as cursor:
        cursor.execute(_MOST)
        return dict(cursor.fetchall())


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    ("workers", "keys", "seconds"), [(6, 10, share(6, of=2)), pytest.param(16, 50, 60, marks=pytest.mark.long)]
)
def test_no_more_of_a_key_run_than_may_and_all_have_their_places(workers: int, keys: int, seconds: int) -> None:
    """Two keys are asked for by most jobs, so that they are always full."""
    farm.kind(concurrency=MOST, concurrency_key="{account}")
    operations.set_fair("work", "key")
    each = seconds * 1000 // RUNS_MS
    for account in range(keys):
        count = 2 * MOST * each if account < 2 else each
        operations.submit_many([farm.new_job(payload={"ms": RUNS_MS, "account": account}) for _ in range(count)])
    with processes([farm.worker(f"w{n}").pk for n in range(workers)], seconds=seconds, ready=2) as started:
        assert [process.wait() for process in started] == [0] * workers
    most = most_at_once()
    assert Counter(most.values()).keys() <= {1, MOST}
    assert (max(most.values()), len(most)) == (MOST, keys), "none is passed over"
    assert Outcome.objects.filter(status="success").count() > workers * seconds
    assert not Job.objects.running().exists()


@pytest.mark.usefixtures("log")
def test_one_more_than_may_would_be_seen_in_the_log() -> None:
    farm.kind(concurrency=MOST + 1, concurrency_key="{account}")
    operations.submit_many([farm.new_job(payload={"account": 1}) for _ in range(5)])
    worker = farm.worker()
    job, *_ = operations.claim(worker, limit=5)
    farm.succeed(worker, job)
    assert len(operations.claim(worker, limit=5)) == 1
    assert list(most_at_once().values()) == [MOST + 1]
