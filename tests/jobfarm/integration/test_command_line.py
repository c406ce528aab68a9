"""Commands of an operator whose settings are not those of the farm: one sentence and code 1, and nothing is made."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg
import pytest
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict
from pytest_django import DjangoDbBlocker

from jobfarm import command_line
from jobfarm_client.command_line import VERBS
from postgres import connections, embedded
from tests import forkserver, template
from tests.effort import IS_WHOLE
from tests.operations.databases import empty_database
from tests.ports import free_port
from tests.postgres.integration.farms import until

ROOT: Final = Path(settings.BASE_DIR)
DEADLINE_S: Final = 90
KEY: Final = "q3vX7hZk0uJ2mB9dT5sW8yR1aP4cF6eG"
# One of every app that has some, with what it needs to get as far as the database.
COMMANDS: Final = (
    "create_token ada", "login_link ada", "create_worker laptop --queue q", "create_kind k", "jobs list",
    "webhooks secret list", "create_groups", "cluster --mutations --once", "backup {folder}", "showmigrations",
)  # fmt: skip
PORT_OF_NOBODY: Final = "postgresql://ann:s3cret@127.0.0.1:{port}/farm"


def environment(**given: str) -> dict[str, str]:
    """What a process gets: no file of this machine, and no setting of this run."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return inherited | {"JOBFARM_ENV_FILE": "", "PYTHONUNBUFFERED": "1"} | given


def manage(command: str, *, folder: Path, loaded: bool = False, **given: str) -> "subprocess.CompletedProcess[str]":
    """Run a command, typed in `folder`. For one of many in the same environment `loaded` saves half a second of a
    processor each, in a run that need not be whole: what was loaded for it would hide what it does not load itself."""
    words = [word.format(folder=folder / "new") for word in command.split()]
    program = [str(ROOT / "manage.py"), *words]
    own = environment(**given)
    return forkserver.run(program, cwd=folder, env=own, timeout=DEADLINE_S, loaded=loaded and not IS_WHOLE)


def failed_with(done: "subprocess.CompletedProcess[str]") -> str:
    """The one sentence that it ended with; Django puts a word before those that a command raises itself."""
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.strip().removeprefix("CommandError: ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of commands that leave nothing behind: all of them in one environment."""
    return tmp_path_factory.mktemp("typed")


@pytest.fixture(scope="module")
def nobodys_url() -> str:
    """An address of the same for all, at which nobody answers."""
    return PORT_OF_NOBODY.format(port=free_port())


@pytest.fixture(scope="module")
def database_url(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """The address of a new database, which has no tables."""
    with django_db_blocker.unblock(), empty_database() as name:
        yield _url_of(name)


@pytest.fixture
def first_url(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """The same for a first start; unless the run is to be whole, the tables are there, but for those of one app."""
    like = "template1" if IS_WHOLE else template.name()
    with django_db_blocker.unblock(), empty_database(like=like) as name:
        with psycopg.connect(_url_of(name)) as session:
            session.execute("DROP TABLE IF EXISTS captcha_captchastore")
            if not IS_WHOLE:
                session.execute("DELETE FROM django_migrations WHERE app = 'captcha'")
        yield _url_of(name)


def _url_of(name: str) -> str:
    given = conninfo_to_dict(connections.conninfo())
    login = quote(str(given["user"])) + (f":{quote(str(given['password']))}" if given.get("password") else "")
    return f"postgresql://{login}@/{name}?host={quote(str(given['host']), safe='')}&port={given['port']}"


def test_a_reader_who_has_enough_is_no_error(tmp_path: Path) -> None:
    """`manage.py help web | head -1`."""
    with subprocess.Popen(
        [sys.executable, "manage.py", "help", "web"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(JOBFARM_DATA=str(tmp_path), PYTHONUNBUFFERED=""),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait(timeout=DEADLINE_S)) == (b"", 1)


class TestWithoutAFarm:
    @pytest.mark.parametrize("command", ["create_token ada", "jobs list", "backup {folder}", "web", "janitor"])
    def test_a_command_makes_none(self, command: str, folder: Path) -> None:
        data = folder / "typo"
        sentence = failed_with(manage(command, folder=folder, loaded=True, JOBFARM_DATA=str(data)))
        assert sentence.startswith(f"There is no farm in {data}, and this command makes none. Set JOBFARM_DATA to")
        assert "DATABASE_URL" in sentence
        assert not embedded.location(data).home.exists()
        assert not (folder / "new").exists()

    def test_the_doctor_says_so_too(self, folder: Path) -> None:
        done = manage("doctor", folder=folder, loaded=True, JOBFARM_DATA=str(folder / "typo"))
        assert done.returncode == 1
        assert f"There is no farm in {folder / 'typo'}" in done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr

    @pytest.mark.parametrize("command", ["help", "check", "version", "web --help"])
    def test_what_needs_none_goes_on(self, command: str, folder: Path) -> None:
        assert manage(command, folder=folder, loaded=True, JOBFARM_DATA=str(folder / "typo")).returncode == 0

    def test_the_help_has_the_commands_of_clients_too(self, folder: Path) -> None:
        data = str(folder / "typo")
        listed = manage("help", folder=folder, loaded=True, JOBFARM_DATA=data)
        assert [verb for verb in VERBS if f"\n    {verb}\n" not in listed.stdout] == []
        one = manage("help submit", folder=folder, loaded=True, JOBFARM_DATA=data)
        assert one.stdout.startswith("usage: jobfarm submit"), one.stderr

    def test_only_these_make_one(self) -> None:
        """docs/settings.md names them."""
        page = (ROOT / "docs" / "settings.md").read_text()
        assert [name for name in command_line.MAKERS if f"`{name}`" not in page and f" {name}`" not in page] == []


class TestAServerOfOnesOwn:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_that_refuses_is_one_sentence(self, command: str, nobodys_url: str, folder: Path) -> None:
        own = {"DATABASE_URL": nobodys_url, "JOBFARM_DATA": str(folder), "SECRET_KEY": KEY}
        done = manage(command, folder=folder, loaded=True, **own)
        assert "refuses connections: check" in failed_with(done)
        assert "s3cret" not in done.stderr
        assert not (folder / embedded.MARK_FILE).exists(), "an address that nobody answers at marks no folder"

    def test_that_nobody_knows_is_one_sentence(self, tmp_path: Path) -> None:
        url = "postgresql://ann:s3cret@no-such-host.invalid/farm"
        done = manage("create_token ada", folder=tmp_path, DATABASE_URL=url, SECRET_KEY=KEY, JOBFARM_DATA=str(tmp_path))
        assert "cannot be found: check the host's name" in failed_with(done)

    @pytest.mark.parametrize(
        ("part", "wrong", "meaning"),
        [("@/", "@/no_such_", "has no such database"), ("://", "://no_such_", "does not know this user")],
    )
    def test_that_lacks_what_is_named_is_one_sentence(
        self, part: str, wrong: str, meaning: str, database_url: str, tmp_path: Path
    ) -> None:
        url = database_url.replace(part, wrong, 1)
        done = manage("create_token ada", folder=tmp_path, DATABASE_URL=url, SECRET_KEY=KEY, JOBFARM_DATA=str(tmp_path))
        assert meaning in failed_with(done) or "does not let this user in" in failed_with(done)

    @pytest.mark.parametrize("command", ["create_token ada", "jobs list", "web", "janitor", "cluster --actions"])
    def test_without_our_tables_is_one_sentence(self, command: str, database_url: str, folder: Path) -> None:
        own = {"DATABASE_URL": database_url, "JOBFARM_DATA": str(folder / "marked"), "SECRET_KEY": KEY}
        sentence = failed_with(manage(command, folder=folder, loaded=True, **own))
        assert sentence.startswith("PostgreSQL at ")
        assert sentence.endswith(" migrations of this version: run manage.py migrate.")

    def test_shows_the_whole_of_an_error_to_who_asks_for_it(self, nobodys_url: str, folder: Path) -> None:
        own = {"DATABASE_URL": nobodys_url, "JOBFARM_DATA": str(folder), "SECRET_KEY": KEY}
        done = manage("create_groups --traceback", folder=folder, loaded=True, **own)
        assert done.returncode == 1
        assert "Traceback" in done.stderr


@pytest.mark.django_db  # or a run of this file alone has no database to copy
class TestAFirstStart:
    def test_with_a_server_of_ones_own_needs_no_folder_and_claims_it(self, first_url: str, tmp_path: Path) -> None:
        """Then a command without DATABASE_URL finds whose folder it is, and works on no other database."""
        data = tmp_path / "some" / "folder"
        process = subprocess.Popen(
            [sys.executable, "manage.py", "farm", "--port", "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
            env=environment(DATABASE_URL=first_url, SECRET_KEY=KEY, JOBFARM_DATA=str(data)),
            start_new_session=True,
        )  # fmt: skip
        try:
            until((data / "farm.json").exists)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=DEADLINE_S) == 0
        finally:
            process.kill()
            process.communicate()
        name = first_url.partition("@/")[2].partition("?")[0]
        assert (data / embedded.MARK_FILE).read_text().startswith(f'"{name}" at ')
        for command in ("create_token ada", "backup {folder}", "migrate", "web"):
            sentence = failed_with(manage(command, folder=tmp_path, JOBFARM_DATA=str(data)))
            assert sentence.startswith(f'{data} belongs to a farm whose database is "{name}" at ')
            assert f"delete {data / embedded.MARK_FILE} to use an embedded database" in sentence
        assert not embedded.location(data).home.exists()
        with psycopg.connect(first_url) as session:
            assert session.execute("SELECT FROM captcha_captchastore").fetchall() == [], "a first start migrates"
        own = environment(DATABASE_URL=first_url, SECRET_KEY=KEY, JOBFARM_DATA=str(data))
        program = [str(ROOT / "manage.py"), "create_groups"]
        assert forkserver.run(program, cwd=tmp_path, env=own, timeout=DEADLINE_S).returncode == 0


class TestAnEnvironmentFile:
    @pytest.mark.parametrize(
        "command", [("manage.py", "check"), ("manage.py", "web"), ("-m", "uvicorn", "jobfarm.asgi:application")]
    )
    def test_is_read_by_whatever_is_started(self, command: tuple[str, ...], tmp_path: Path) -> None:
        file = tmp_path / "environment"
        file.write_text("LOG_LEVEL=loud\nPORT=none\nJOBFARM_LEASE=5\nSECRET_KEY='quoted'\n")
        done = forkserver.run(command, env=environment(JOBFARM_ENV_FILE=str(file)), timeout=DEADLINE_S)
        assert (done.returncode, done.stdout) == (1, "")
        first_words = [line.split(" ")[0] for line in done.stderr.splitlines()]
        assert first_words == ["JOBFARM_LEASE", f"{file},", "PORT", "LOG_LEVEL"]

    def test_gives_a_typed_command_the_farms_database(self, tmp_path: Path) -> None:
        """With the password in a file of its own; a real variable wins."""
        port, other = free_port(), free_port()
        secret = tmp_path / "url"
        secret.write_text(PORT_OF_NOBODY.format(port=port) + "\n")
        file = tmp_path / "environment"
        file.write_text(f"DATABASE_URL_FILE={secret}\nJOBFARM_DATA={tmp_path}\nSECRET_KEY={KEY}\n")
        named = str(file)
        assert f"port {port} " in failed_with(manage("create_token ada", folder=tmp_path, JOBFARM_ENV_FILE=named))
        real = manage(
            "create_token ada", folder=tmp_path, JOBFARM_ENV_FILE=named, DATABASE_URL=PORT_OF_NOBODY.format(port=other)
        )
        assert f"port {other} " in failed_with(real)

    def test_has_apps_and_the_folders_that_they_lie_in(self, tmp_path: Path) -> None:
        (tmp_path / "apps" / "notes").mkdir(parents=True)
        (tmp_path / "apps" / "notes" / "__init__.py").touch()
        file = tmp_path / "environment"
        file.write_text(f"JOBFARM_APPS=notes\nPYTHONPATH={tmp_path / 'apps'}\nJOBFARM_DATA={tmp_path}\n")
        assert manage("check", folder=tmp_path, JOBFARM_ENV_FILE=str(file)).returncode == 0
