"""The server's end: whoever waits is sent home at once, and nothing is left behind."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from pytest_django import DjangoDbBlocker
from websockets.exceptions import ConnectionClosed

from jobs import operations
from jobs.models import Worker
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import PATIENCE_S, ask
from tests.servers import Server, Serving, serve

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def own_server(serving: Serving, transactional_db: None, request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that only this test uses."""
    serving.end()
    operations.sync()
    with serve(**getattr(request, "param", {})) as server:
        yield server
        callers.close_all()


@pytest.fixture(scope="module")
def server(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Server]:
    """One for all that only ask: a start takes two seconds of a processor."""
    with django_db_blocker.unblock():
        with serve() as made:
            yield made
        connection.close()


class TestTerm:
    def test_ends_long_polls_streams_and_sockets_within_a_second(self, own_server: Server) -> None:
        ada = User.objects.create_user("ada")
        client = callers.client(own_server, ada)
        job = operations.submit("chat", {}, owner=ada, run_at=None)
        crew = callers.crew(own_server, "image")
        path = f"/api/v1/jobs/{job.pk}/events"
        with ThreadPoolExecutor(1) as pool, crew.socket() as socket, client.stream("GET", path) as stream:
            assert ask(socket, type="claim", ref=1)["jobs"] == []
            events = callers.events(stream.iter_lines())
            next(events)
            poller = callers.crew(own_server, "image")
            waiting = pool.submit(poller.claim, wait=60)
            farm.until(lambda: Worker.objects.get(pk=poller.worker.pk).last_seen_at, what="the long poll's asking")
            took_s = own_server.stop()
            assert waiting.result(PATIENCE_S) == []
            assert list(events) == []
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(PATIENCE_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        assert took_s < 30  # at most one of it is ours, on a machine that is not busy; who waited for the poll: sixty
        assert "Traceback" not in own_server.log
        assert "ERROR" not in own_server.log

    @pytest.mark.parametrize("own_server", [{"JOBFARM_DB_STARTUP_OPTIONS": "0"}], indirect=True, ids=["without bounds"])
    def test_cuts_what_the_database_keeps_waiting_and_says_so_in_one_line(self, own_server: Server) -> None:
        """As when it has frozen: neither a socket nor a request gets its answer in time."""
        crew = callers.crew(own_server, "image")
        with ThreadPoolExecutor(2) as pool, crew.socket() as socket:
            assert ask(socket, type="claim", ref=1)["jobs"] == []
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute("LOCK TABLE jobs_workerfacts")
                socket.send(json.dumps({"type": "hello", "ref": 2}))
                request = pool.submit(crew.post, "hello")
                farm.until(lambda: farm.waiting_for_locks() == 2, what="both wait")
                ending = pool.submit(own_server.stop)
                farm.until(lambda: "graceful shutdown exceeded" in own_server.log, what="the deadline")
            ending.result(PATIENCE_S)
            request.exception(PATIENCE_S)
        assert "Traceback" not in own_server.log, own_server.log
        assert own_server.log.count("ERROR") == 1

    def test_of_an_idle_server_says_nothing(self, own_server: Server) -> None:
        own_server.stop()
        assert own_server.log == ""


class TestForeignHosts:
    def test_are_refused_in_the_one_form(self, server: Server) -> None:
        refused = httpx.get(f"{server.url}/api/v1/jobs", headers={"Host": "evil.example"})
        assert (refused.status_code, json.loads(refused.text)["error"]) == (400, "bad_request")

    @pytest.mark.parametrize("path", ["/api/v1/jobs", "/", "/health/live", "/webhooks/github/", "/nowhere"])
    def test_are_one_line_of_warning_each(self, server: Server, path: str) -> None:
        before = len(server.log)
        httpx.request("POST" if "webhooks" in path else "GET", server.url + path, headers={"Host": "evil.example"})
        lines = server.log[before:].splitlines()
        assert [("WARNING" in line, "'evil.example'" in line) for line in lines] == [(True, True)]
