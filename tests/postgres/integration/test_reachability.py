"""One sentence for whoever set DATABASE_URL wrongly, from servers that really are so."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import Error, OperationalError, connection, connections, transaction
from pytest_django import DjangoDbBlocker

from postgres import configuration
from postgres.errors import NoAccount
from postgres.reachability import explain_unreachable
from tests.ports import free_port
from tests.postgres.integration.farms import Farm

ALIAS = "elsewhere"


@pytest.fixture(autouse=True)
def _database_allowed(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


@contextmanager
def configured(**entry: Any) -> Iterator[None]:
    """A second database in the settings, for as long as the block lasts."""
    everything = connections.configure_settings({"default": {}, ALIAS: entry})
    connections.settings[ALIAS] = everything[ALIAS]
    try:
        yield
    finally:
        connections[ALIAS].close()
        connections[ALIAS].close_pool()  # type: ignore[attr-defined]
        del connections[ALIAS], connections.settings[ALIAS]


def explain(**entry: Any) -> str | None:
    """What is said when a connection to that database fails."""
    with configured(**entry):
        with pytest.raises(Error) as caught:
            connections[ALIAS].ensure_connection()
        return explain_unreachable(caught.value, using=ALIAS)


def explain_url(url: str) -> str | None:
    return explain(**configuration.database(url, data=Path("/nowhere")))


class TestExplainUnreachable:
    def test_names_a_port_that_nobody_listens_on(self) -> None:
        port = free_port()
        assert explain_url(f"postgresql://ann:s3cret@127.0.0.1:{port}/farm") == (
            f'PostgreSQL at 127.0.0.1, port {port} (database "farm", user "ann") refuses connections: check '
            "that the server runs, and that host and port in DATABASE_URL are right."
        )

    def test_names_a_host_that_is_unknown(self) -> None:
        assert explain_url("postgresql://ann:s3cret@no-such-host.invalid/farm") == (
            'PostgreSQL at no-such-host.invalid, port 5432 (database "farm", user "ann") cannot be found: '
            "check the host's name in DATABASE_URL, and that this machine can look it up."
        )

    def test_names_a_socket_that_is_not_there(self) -> None:
        sentence = explain_url("postgresql:///farm?host=/no/such/folder")
        assert sentence
        assert sentence.startswith("PostgreSQL at /no/such/folder, port 5432")
        assert "refuses connections" in sentence

    def test_notices_a_host_that_keeps_silent(self) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            port = server.getsockname()[1]
            sentence = explain_url(f"postgresql://ann@127.0.0.1:{port}/farm?connect_timeout=2")
        assert sentence
        assert "does not answer: check host and port" in sentence

    def test_repeats_what_a_stranger_says(self) -> None:
        """Something listens there, but it is not PostgreSQL."""
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            port = server.getsockname()[1]

            def answer() -> None:
                visitor, _ = server.accept()
                visitor.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                visitor.close()

            threading.Thread(target=answer).start()
            sentence = explain_url(f"postgresql://ann:s3cret@127.0.0.1:{port}/farm?sslmode=disable")
        assert sentence
        assert "s3cret" not in sentence
        assert sentence.startswith(f"PostgreSQL at 127.0.0.1, port {port}")

    @pytest.mark.parametrize(
        ("change", "meaning"),
        [({"NAME": "no_such_database"}, "has no such database"), ({"USER": "no_such_user"}, "does not know this user")],
    )
    def test_names_what_the_server_does_not_have(self, farm: Farm, change: dict[str, str], meaning: str) -> None:
        output = farm.run(f"""
from postgres.reachability import explain_unreachable
connection.settings_dict.update({change!r})
try:
    clock.now()
except OperationalError as error:
    say(explain_unreachable(error))
""")
        assert meaning in output
        assert "no_such" in output

    def test_names_a_wrong_password_without_repeating_it(self, farm: Farm) -> None:
        rules = farm.cluster / "pg_hba.conf"
        before = rules.read_bytes()
        rules.write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        output = farm.run("""
from postgres.reachability import explain_unreachable
connection.settings_dict["PASSWORD"] = "s3cret"
try:
    clock.now()
except OperationalError as error:
    say(explain_unreachable(error))
""")
        rules.write_bytes(before)
        assert "does not let this user in: check user and password" in output
        assert "s3cret" not in output

    def test_tells_a_pool_that_is_used_up_from_a_server_that_is_down(self) -> None:
        entry = {**connections.settings["default"], "OPTIONS": {"pool": {"min_size": 0, "max_size": 1, "timeout": 0.2}}}
        with configured(**entry):
            connections[ALIAS].ensure_connection()
            other = connections.create_connection(ALIAS)
            with pytest.raises(OperationalError) as caught:
                other.ensure_connection()
            sentence = explain_unreachable(caught.value, using=ALIAS)
        assert sentence
        assert sentence.endswith("answers, but this process has no connection left: raise JOBFARM_DB_POOL.")

    def test_passes_on_what_the_embedded_server_says(self) -> None:
        assert explain_unreachable(NoAccount(name="jobfarm")) == str(NoAccount(name="jobfarm"))


@pytest.mark.django_db(transaction=True)
class TestOtherErrors:
    def test_are_not_explained(self) -> None:
        with pytest.raises(Error) as caught, connection.cursor() as cursor:
            cursor.execute("SELECT 1/0")
        assert explain_unreachable(caught.value) is None
        assert explain_unreachable(ValueError("no")) is None

    def test_of_the_same_class_are_not_either(self) -> None:
        """A lock that was not to be had is an OperationalError too."""
        with pytest.raises(OperationalError) as caught, transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("DO $$ BEGIN RAISE EXCEPTION 'locked' USING ERRCODE = 'lock_not_available'; END $$")
        assert explain_unreachable(caught.value) is None
