"""Sixteen processes at the farm's own operations, killed and cut off: no fault but those that are planted."""

import os
import re
import uuid
from pathlib import Path

import pytest

from jobs.domain.leases import Lease
from jobs.operations import Finished, Wait
from tests.hammer import planted, scene

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = float(os.environ.get("HAMMER_SECONDS", "8"))


@pytest.mark.landing
def test_no_call_is_told_what_the_tables_do_not_say(tmp_path: Path) -> None:
    report = scene.run(SECONDS, tmp_path)
    print(report)
    assert report.faults == []
    assert report.ended["success"] > 50, report
    assert report.answers["signal ok"] > 5, report
    assert report.answers["push ok"] > report.answers["given ok"] > 5, report


def test_of_two_leases_of_a_job_the_newest_says_what_it_waits_for() -> None:
    older, newer = (Lease(fence=fence, secret=uuid.uuid4()) for fence in (1, 2))
    waits = Finished(job_id=7, lease=older, outcome="suspended", wait=Wait(signal="go"))
    assert scene.waits_of([waits]) == {"waits": {"7": {"signal": "go", "timeout": None}}}
    assert scene.waits_of([Finished(job_id=7, lease=newer, outcome="failed"), waits]) == {}


def test_each_guard_that_is_taken_out_below_stands_in_its_statement() -> None:
    assert planted.missing() == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "noticed"),
    [
        ("fence", "after the claim was over|was told success"),
        ("ceiling", "a ceiling of 3"),
        ("push", "brought an earlier push"),
    ],
)
def test_a_guard_that_is_taken_out_is_noticed(tmp_path: Path, fault: str, noticed: str) -> None:
    report = scene.run(max(SECONDS, 15), tmp_path, planted=fault)
    assert any(re.search(noticed, one) for one in report.faults), report
