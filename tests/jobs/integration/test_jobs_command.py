"""`manage.py jobs`: what it refuses."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from jobs import operations
from tests import farm

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_list_of_fewer_than_one_is_refused_with_a_sentence(limit: str) -> None:
    with pytest.raises(CommandError, match="--limit takes a number from 1 on"):
        call_command("jobs", "list", "--limit", limit)


@pytest.mark.parametrize("command", ["show", "cancel", "retry", "retry_from", "run_now", "tail"])
def test_a_number_that_no_job_can_have_is_that_of_no_job(command: str) -> None:
    with pytest.raises(CommandError, match="There is no such job"):
        call_command("jobs", command, str(10**20))


def test_a_job_that_is_refused_keeps_none_behind_it_from_what_is_done() -> None:
    farm.kind()
    first, second = farm.submit(2)
    operations.cancel(first.pk, by=None)
    out = StringIO()
    with pytest.raises(CommandError, match=f"^#{first.pk}: .*\n#{10**9}: There is no such job"):
        call_command("jobs", "run_now", str(first.pk), str(10**9), str(second.pk), stdout=out)
    assert out.getvalue() == f"#{second.pk}: due now\n"
