"""Workers in processes of their own never run more of a concurrency key than may, and leave no place of it empty."""

import threading
from collections import Counter

import pytest

from jobs import operations
from jobs.models import Job, Outcome
from tests import farm
from tests.jobs.fair.test_processes import processes
from tests.jobs.keys.test_concurrency import watch

pytestmark = pytest.mark.django_db(transaction=True)
MOST, RUNS_MS = 2, 30


@pytest.mark.parametrize(("workers", "keys", "seconds"), [(6, 10, 5), pytest.param(16, 50, 60, marks=pytest.mark.long)])
def test_no_more_of_a_key_run_than_may_and_all_have_their_places(workers: int, keys: int, seconds: int) -> None:
    """Two keys are asked for by most jobs, so that they are always full."""
    farm.kind(concurrency=MOST, concurrency_key="{account}")
    operations.set_fair("work", "key")
    each = seconds * 1000 // RUNS_MS
    for account in range(keys):
        count = 2 * MOST * each if account < 2 else each
        operations.submit_many([farm.new_job(payload={"ms": RUNS_MS, "account": account}) for _ in range(count)])
    done, most = threading.Event(), Counter[int]()
    watcher = threading.Thread(target=watch, args=(done, most))
    watcher.start()
    try:
        with processes([farm.worker(f"w{n}").pk for n in range(workers)], seconds=seconds, ready=2) as started:
            assert [process.wait() for process in started] == [0] * workers
    finally:
        done.set()
        watcher.join()
    assert max(most.values()) == MOST
    assert len(most) == keys, "none is passed over"
    assert Outcome.objects.filter(status="success").count() > workers * seconds
    assert not Job.objects.running().exists()
