"""`manage.py jobs`: what it refuses."""

import pytest
from django.core.management import CommandError, call_command

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_list_of_fewer_than_one_is_refused_with_a_sentence(limit: str) -> None:
    with pytest.raises(CommandError, match="--limit takes a number from 1 on"):
        call_command("jobs", "list", "--limit", limit)


@pytest.mark.parametrize("command", ["show", "cancel", "retry", "retry_from", "run_now", "tail"])
def test_a_number_that_no_job_can_have_is_that_of_no_job(command: str) -> None:
    with pytest.raises(CommandError, match="There is no such job"):
        call_command("jobs", command, str(10**20))
