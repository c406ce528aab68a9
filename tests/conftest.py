"""What every test stands on: a database of its own run, so that two runs on one machine do not meet."""

import gc
import os
import re
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import psycopg
import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from observing import fields
from observing.logs import LATEST_ERRORS
from postgres import connections

if TYPE_CHECKING:  # a model can be imported when Django is ready
    from django.contrib.auth.models import User

# A machine that is busy is no reason to fail: how fast an example is made, or run, is not what is tested.
hypothesis.settings.register_profile("suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("suite")
_NAME = re.compile(r"test_jobfarm_(\d+)(_\w+)?")
# Files of these folders take from ten seconds to two minutes, most of it waiting for other processes; those that take
# more than one, first.
_LONG = (
    re.compile(r"tests/browser/test_every_"),
    re.compile(r"tests/(scheduling/concurrency|jobfarm/integration)/"),
    re.compile(r"tests/browser/"),
    re.compile(r"tests/(.+/concurrency|jobs/presence|crashes|fleet)/"),
)
_TOGETHER = ("tests/browser/", "tests/api/edges/", "tests/openai_api/edges/")  # one after another: they share a server
_BEGUN_BY = 0.8  # of the short files, when the last of the long ones begins
# New objects; Python's own 700 cost a tenth of all time, 10,000 still a fiftieth.
_COLLECTED_EVERY = 50_000
# All but those that are empty and known to be: to write all of them anew takes a second of a processor.
_USED = """
SELECT quote_ident(relname) FROM pg_class AS c
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND (
    reltuples <> 0 OR pg_relation_size(oid) > 0
    OR pg_indexes_size(oid) > 16384 * (SELECT count(*) FROM pg_index WHERE indrelid = c.oid)
)
"""
_BUSY = pytest.StashKey[tuple[float, float]]()


def pytest_configure() -> None:
    """A test that commits leaves an empty farm behind; what is the same for all is found out once; passwords are hashed
    quickly; and nothing of what is collected is garbage (`pytest_collection_finish`)."""
    from django.conf import settings

    from tests import emptying, locks, once

    gc.disable()
    if folder := os.environ.get("JOBFARM_LOCKS"):
        from tests.lockorders import recording

        recording.record(Path(folder))
    emptying.in_place_of_flush()
    once.in_place_of_each_time()
    locks.as_on_a_farm()
    # Django's hash is slow on purpose, half a second for each password; here nobody attacks it.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def pytest_runtest_setup() -> None:
    """A request that broke with its test is over."""
    from tests import locks

    locks.forget()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files among short ones, so that the processors have work while the long ones wait; and none of them last
    (the Makefile's `--no-loadscope-reorder` keeps this order)."""
    if os.environ.get("JOBFARM_LOCKS"):
        from tests.lockorders import recording

        items[:] = recording.committed(items)
    files = dict.fromkeys(_file(item) for item in items)
    long = sorted(filter(_place_among_long, files), key=_place_among_long)
    short = [file for file in files if not _place_among_long(file)]
    turn = {file: _BEGUN_BY * n / len(long) for n, file in enumerate(long)}
    turn |= {file: n / len(short) for n, file in enumerate(short)}
    for folder in _TOGETHER:
        together = [file for file in files if file.startswith(folder)]
        turn |= dict.fromkeys(together, min((turn[file] for file in together), default=0.0))
    items.sort(key=lambda item: (turn[_file(item)], _file(item)))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _place_among_long(file: str) -> int:
    """From one on; none of the long ones has 0."""
    return next((place for place, start in enumerate(_LONG, start=1) if start.match(file)), 0)


def pytest_collection_finish() -> None:
    """What was collected stays: Python need not look through half a million objects for garbage again and again."""
    gc.freeze()
    gc.set_threshold(_COLLECTED_EVERY)
    gc.enable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """From now on the processors' time counts."""
    session.config.stash[_BUSY] = time.monotonic(), _busy_s()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How much of the machine the run used: more processes (`-n`) make it shorter only while processors are idle."""
    began, busy_s = config.stash[_BUSY]
    wall_s, busy_s, processors = time.monotonic() - began, _busy_s() - busy_s, os.cpu_count() or 1
    share = busy_s / wall_s / processors
    terminalreporter.write_line(f"busy for {busy_s:.0f} s in {wall_s:.0f} s: {share:.0%} of {processors} processors")


def _busy_s() -> float:
    """How long the processors of this machine have worked since it started, whoever they worked for (proc_stat(5))."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Half a character, as some tests send and logs repeat, is no UTF-8: xdist ends the whole run at such a report."""
    report = yield
    report.sections = [(name, _whole(text)) for name, text in report.sections]
    if report.longrepr is not None and _whole(str(report.longrepr)) != str(report.longrepr):
        report.longrepr = _whole(str(report.longrepr))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name what fails at once: of a run that is ended from outside the F would be all that is known."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid}, {report.when}: {report.longreprtext[-2000:]}", file=sys.stderr, flush=True)


def _whole(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


@pytest.fixture(scope="session", autouse=True)
def _what_is_kept() -> None:
    """The apps' crons.py say it; the crons that they declare as well fire in no test that does not ask for them."""
    from django.utils.module_loading import autodiscover_modules

    from scheduling.operations import crons

    autodiscover_modules("crons")
    crons._declared.clear()


@pytest.fixture(autouse=True)
def _about_nothing() -> Iterator[None]:
    """What the calls of one test were about, as log lines have it, is nothing to the next: of those that a test makes
    without a server nobody else ends it. So are the errors that it logged."""
    LATEST_ERRORS.forget()
    with fields.about():
        yield


@pytest.fixture(scope="session")
def _template_turn() -> psycopg.Connection[tuple[object, ...]]:
    from tests import template

    template.write_without_waiting_for_the_disk()
    return template.turn()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    request: pytest.FixtureRequest, _template_turn: psycopg.Connection[tuple[object, ...]]
) -> None:
    """Name the test database after this process, and drop those whose process is gone. It is a copy of the template,
    if there is one."""
    from django.conf import settings

    from tests import template

    _drop_what_dead_runs_left()
    worker = getattr(request.config, "workerinput", {}).get("workerid", "")
    name = f"test_jobfarm_{os.getpid()}" + (f"_{worker}" if worker else "")
    of = template.name() if template.is_there(_template_turn) else None
    settings.DATABASES["default"].setdefault("TEST", {}).update({"NAME": name, "TEMPLATE": of})


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, _template_turn: psycopg.Connection[tuple[object, ...]]
) -> None:
    """pytest-django's, which makes a database only where a test is marked so; and the first of a version leaves it as
    the template."""
    from django.conf import settings

    from tests import template

    is_made = connection.settings_dict["NAME"] == settings.DATABASES["default"]["TEST"]["NAME"]
    with django_db_blocker.unblock(), _template_turn as turn:
        if is_made and not template.is_there(turn):
            template.make(turn)


@pytest.fixture(scope="module")
def no_dead_rows(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Around a file that counts pages: what tests deleted or rolled back lies in the tables until they are vacuumed,
    in their indexes until these are made anew, and their statistics are of rows that are gone."""
    _vacuum(django_db_blocker)
    yield
    _vacuum(django_db_blocker)


def _vacuum(django_db_blocker: DjangoDbBlocker) -> None:
    with django_db_blocker.unblock():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute(_USED)
            if names := ", ".join(name for (name,) in cursor.fetchall()):
                cursor.execute(f"VACUUM (FULL, ANALYZE) {names}")
        connection.close()


def _drop_what_dead_runs_left() -> None:
    from tests.operations.databases import drop

    with psycopg.connect(connections.conninfo(), dbname="postgres", autocommit=True) as server:
        for (name,) in server.execute("SELECT datname FROM pg_database").fetchall():
            match = _NAME.fullmatch(name)
            if match and not Path(f"/proc/{match[1]}").exists():
                drop(server, name)


@pytest.fixture
def ada(db: None) -> "User":
    """Somebody with an account."""
    from tests import farm

    return farm.user("ada")


@pytest.fixture
def bob(db: None) -> "User":
    """Somebody else."""
    from tests import farm

    return farm.user("bob")


@pytest.fixture
def boss(db: None) -> "User":
    """Who runs the farm."""
    from tests import farm

    return farm.user("boss", is_staff=True, is_superuser=True)


@pytest.fixture
def work_kind(db: None) -> None:
    """The kind `work`, whose queue has the same name."""
    from tests import farm

    farm.kind()
