"""The pages for what went wrong: they keep no connection of the database, and say what it was."""

import html
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection, connections, transaction
from django.test import Client

from accounts import operations as accounts
from jobfarm import middleware
from tests.pages.edges.conftest import Farm
from tests.pages.edges.serving import served
from tests.servers import database_away, serve

pytestmark = pytest.mark.django_db(transaction=True)


def held() -> int:
    """How many connections of the pool are out."""
    stats: dict[str, int] = connection.pool.get_stats()  # type: ignore[attr-defined]  # Django's stubs leave it out
    return stats["pool_size"] - stats.get("pool_available", 0)


class TestAPageForAnError:
    @pytest.mark.parametrize(("path", "status"), [("/jobs/1/", 404), ("/nowhere", 404), ("/limits/", 403)])
    def test_gives_back_the_connection_it_asked_who_is_logged_in_with(
        self, little_farm: Farm, path: str, status: int
    ) -> None:
        before = held()
        assert served(little_farm.eve, path).status_code == status
        assert held() == before


def _refused(*_: object) -> None:
    raise OperationalError("connection refused") from psycopg.OperationalError("connection refused")


def _status_of(url: str) -> int:
    """How it answers somebody with a key."""
    key = {"Authorization": "Bearer jft_of_somebody"}
    return httpx.request("POST" if url.endswith("claim") else "GET", url, headers=key, timeout=30).status_code


def _full(*_: object) -> None:
    raise OperationalError("no space left") from psycopg.errors.DiskFull("no space left")


class TestTheDatabaseAway:
    def test_is_one_line_of_the_log_for_a_request_and_no_traceback(self, transactional_db: None) -> None:
        with serve() as server:
            with database_away(), ThreadPoolExecutor() as requests:
                paths = ["/api/v1/jobs", "/v1/models", "/accounts/guest/", "/api/v1/worker/claim"]
                requested = [requests.submit(_status_of, f"{server.url}{path}") for path in paths]
                assert [request.result() for request in requested] == [503] * len(paths)
            about = [line for line in server.log.splitlines() if "django.request" in line]
            assert "Traceback" not in server.log
        assert sorted(line.partition(": ")[2].partition(": ")[2].split(":")[0] for line in about) == sorted(paths)

    @pytest.mark.parametrize("fails", [_refused, _full])
    def test_is_said_as_such_and_without_asking_it(
        self, little_farm: Farm, client: Client, monkeypatch: pytest.MonkeyPatch, fails: Callable[..., None]
    ) -> None:
        client.force_login(little_farm.eve)
        client.raise_request_exception = False
        monkeypatch.setattr(type(connections["default"]), "ensure_connection", fails)
        answer = client.get("/jobs/")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert "The database does not respond" in html.unescape(answer.text)

    def test_is_unavailable_to_a_message_of_a_socket_in_whichever_way_it_cannot_serve(self) -> None:
        for sqlstate in ("25006", "25P03", "53100", "53300", "55P03", "57P01", "57P03", "08006", "58030"):
            error = DatabaseError()
            error.__cause__ = psycopg.errors.lookup(sqlstate)("it cannot")
            status, body = middleware.problem(error)
            assert (sqlstate, status, body["error"]) == (sqlstate, 503, "unavailable")
        assert middleware.problem(ZeroDivisionError())[0] == 500

    def test_to_programs_is_unavailable_with_when_to_come_again(self, little_farm: Farm, client: Client) -> None:
        """A server that only reads after a failover, or because its operator said so, and Django's own statement."""
        _, token = accounts.create_token(little_farm.ada, name="tests")
        client.raise_request_exception = False
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            answer = client.post(
                "/api/v1/jobs",
                {"kind": "chat", "payload": {}},
                content_type="application/json",
                headers={"Authorization": f"Bearer {token}"},
            )
            transaction.set_rollback(True)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert answer.json()["error"] == "unavailable"

    def test_is_another_fault_than_one_of_ours(
        self, little_farm: Farm, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client.force_login(little_farm.eve)
        client.raise_request_exception = False
        monkeypatch.setattr(type(connections["default"]), "ensure_connection", _broken)
        answer = client.get("/jobs/")
        assert answer.status_code == 500
        assert "Something went wrong" in answer.text


class TestAnAddressOfAButton:
    def test_says_so_and_leads_to_the_page_with_the_button(self, little_farm: Farm, client: Client) -> None:
        client.force_login(little_farm.eve)
        answer = client.get("/jobs/7/cancel/")
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
        assert 'href="/jobs/7/"' in answer.text

    def test_leads_past_what_is_no_page(self, little_farm: Farm, client: Client) -> None:
        client.force_login(little_farm.eve)
        assert 'class="button primary" href="/accounts/tokens/"' in client.get("/accounts/tokens/7/revoke/").text

    def test_is_told_to_programs_in_no_words(self, little_farm: Farm, client: Client) -> None:
        client.force_login(little_farm.eve)
        answer = client.get("/jobs/7/cancel/", headers={"Accept": "application/json"})
        assert (answer.status_code, answer.content) == (405, b"")


def _broken(*_: object) -> None:
    raise ZeroDivisionError("a fault of ours")
