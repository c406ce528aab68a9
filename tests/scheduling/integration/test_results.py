"""Results of actions that cannot be stored: what they did is done."""

import pytest
from django.db import connection

from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_action_is_a_success_though_its_result_raises_when_it_is_read() -> None:
    row = scheduling.run_after(0, sample.say_what_cannot_be_read)
    scheduling.run_due()
    row.refresh_from_db()
    assert (row.status, row.error) == ("success", "Broken: no items")


def test_an_action_is_a_success_though_the_server_refuses_its_result() -> None:
    """As a text of more than 255 MB."""
    row = scheduling.run_after(0, sample.say, word="long")
    with connection.cursor() as cursor:
        table = f"ALTER TABLE {ScheduledFunction._meta.db_table}"
        cursor.execute(f"""{table} ADD CONSTRAINT short CHECK (result <> '"long"')""")
        try:
            scheduling.run_due()
        finally:
            cursor.execute(f"{table} DROP CONSTRAINT short")
    row.refresh_from_db()
    assert (row.status, row.result) == ("success", None)
    assert "IntegrityError" in (row.error or "")
