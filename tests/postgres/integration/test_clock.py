"""The database's clock."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from postgres import clock


@pytest.mark.django_db(transaction=True)
class TestNow:
    def test_is_aware_and_in_utc(self) -> None:
        now = clock.now()
        assert now.tzinfo is UTC
        assert abs(now - datetime.now(tz=UTC)) < timedelta(minutes=1)

    def test_goes_on_inside_a_transaction(self) -> None:
        with transaction.atomic():
            assert clock.now() < clock.now()
