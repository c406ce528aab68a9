"""The world is made once for all tests of this folder, in a transaction that ends with them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import transaction
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from tests.permissions import world
from tests.permissions.world import World


@pytest.fixture(scope="module")
def farm(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """One of everything, for the tests of a file: each undoes what it did."""
    files: Path = tmp_path_factory.mktemp("files")
    with django_db_blocker.unblock(), override_settings(MEDIA_ROOT=files), transaction.atomic():
        yield world.build()
        transaction.set_rollback(True)
