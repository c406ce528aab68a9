"""Lanes that nobody puts to sleep are looked at by every claim for nothing: the doctor says so, a janitor mends it."""

import pytest
from django.db import connection

from jobfarm import job_health
from jobfarm.findings import Level
from jobs import operations
from tests import farm

pytestmark = pytest.mark.django_db
_ENTERED = """
SELECT jobs_enter('work', 0::smallint, NULL, NULL, NULL, ARRAY[n]::bigint[],
                   now() - make_interval(secs => %(due_s_ago)s))
FROM generate_series(1, %(lanes)s) AS n
"""


def _enter(lanes: int, *, due_s_ago: float) -> None:
    """Something was put into so many lanes, and is gone."""
    with connection.cursor() as cursor:
        cursor.execute(_ENTERED, {"lanes": lanes, "due_s_ago": due_s_ago})


class TestTheDoctor:
    def test_says_that_lanes_are_not_tidied_until_a_janitor_comes(self) -> None:
        farm.kind()
        _enter(job_health.UNTIDIED, due_s_ago=61)
        [finding] = job_health.lanes()
        assert finding.level == Level.WARNING
        assert finding.sentence == (
            "Lanes are not tidied: nothing waits in 1,000 of them, and every claim looks at each."
        )
        assert "janitor" in finding.remedy
        assert operations.tend_lanes() == job_health.UNTIDIED
        assert list(job_health.lanes()) == []

    def test_says_nothing_of_lanes_that_were_emptied_a_moment_ago_or_in_which_something_waits(self) -> None:
        farm.kind()
        _enter(job_health.UNTIDIED, due_s_ago=30)
        assert list(job_health.lanes()) == []
        _enter(job_health.UNTIDIED - 1, due_s_ago=61)
        farm.pass_time(farm.submit(1)[0], 100)
        assert list(job_health.lanes()) == []
