"""The process that forks."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from tests.crashes.points import Template, template

pytest.register_assert_rewrite("tests.crashes.scenes")  # so that they tell what differs


@pytest.fixture(scope="module")
def forks(django_db_setup: None, django_db_blocker: Any) -> Iterator[Template]:
    """One for all actions of a file."""
    with template(str(connection.settings_dict["NAME"])) as made:
        yield made
