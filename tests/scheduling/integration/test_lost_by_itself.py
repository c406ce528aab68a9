"""A mutation whose error looks like a lost connection, while its connection is there."""

import pytest
from django.db import connection

from scheduling import operations as scheduling
from scheduling.models import Due, ScheduledFunction
from scheduling.operations import clusters


@scheduling.mutation
def uses_a_closed_cursor() -> None:
    cursor = connection.cursor()
    cursor.close()
    cursor.execute("SELECT 1")


@pytest.mark.django_db(transaction=True)
def test_a_mutation_that_uses_a_closed_cursor_fails_and_is_not_run_for_ever() -> None:
    made = scheduling.run_after(0, uses_a_closed_cursor)

    clusters.run_due()

    row = ScheduledFunction.objects.get(pk=made.pk)
    assert (row.status, row.error) == ("failed", "InterfaceError: the cursor is closed")
    assert not Due.objects.filter(pk=made.pk).exists()
