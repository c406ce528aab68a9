"""What every test stands on: a database of its own run, so that two runs on one machine do not meet."""

import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from pytest_django import Settings

from observing import fields
from postgres import connections

_NAME = re.compile(r"test_jobfarm_(\d+)(_\w+)?")
# Files of these folders take from ten seconds to two minutes, most of it waiting for other processes. Begun first,
# they are over when the last of the short ones is.
_LONG = (
    "tests/concurrency/",
    "tests/browser/",
    "tests/integration/farm/",
    "tests/integration/fleet/",
    "tests/chaos/",
)


def pytest_configure() -> None:
    """A test that commits leaves an empty farm behind."""
    from tests import emptying

    emptying.in_place_of_flush()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first (the Makefile's `--no-loadscope-reorder` keeps them there)."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Half a character, as some tests send and logs repeat, is no UTF-8: xdist ends the whole run at such a report."""
    report = yield
    report.sections = [(name, _whole(text)) for name, text in report.sections]
    if report.longrepr is not None and _whole(str(report.longrepr)) != str(report.longrepr):
        report.longrepr = _whole(str(report.longrepr))
    return report


def _whole(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Settings) -> None:
    """Django's hash is slow on purpose, half a second for each password; here nobody attacks it."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def _about_nothing() -> Iterator[None]:
    """What the calls of one test were about, as log lines have it, is nothing to the next: of those that a test makes
    without a server nobody else ends it."""
    with fields.about():
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(request: pytest.FixtureRequest) -> None:
    """Name the test database after this process, and drop those whose process is gone."""
    from django.conf import settings

    _drop_what_dead_runs_left()
    worker = getattr(request.config, "workerinput", {}).get("workerid", "")
    name = f"test_jobfarm_{os.getpid()}" + (f"_{worker}" if worker else "")
    settings.DATABASES["default"].setdefault("TEST", {})["NAME"] = name


def _drop_what_dead_runs_left() -> None:
    with psycopg.connect(connections.conninfo(), dbname="postgres", autocommit=True) as connection:
        for (name,) in connection.execute("SELECT datname FROM pg_database").fetchall():
            match = _NAME.fullmatch(name)
            if match and not Path(f"/proc/{match[1]}").exists():
                connection.execute(
                    sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
                )
