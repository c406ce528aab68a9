"""Keys of all kinds: what is stored of them, what each opens, and that no log line holds one."""

import json
from collections.abc import Iterator

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from accounts import operations as accounts
from jobs import operations
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import PATIENCE_S, Crew
from tests.servers import Server, serve
from webhooks import operations as webhooks
from webhooks.domain.deliveries import Source

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def talkative(django_db_setup: None, django_db_blocker: object) -> Iterator[Server]:
    """A server that logs all it can."""
    with django_db_blocker.unblock():  # type: ignore[attr-defined]  # pytest-django's
        connection.close()
        with serve(LOG_LEVEL="DEBUG") as server:
            yield server


def _all_rows() -> str:
    """Every text and JSON value that is stored in any table."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
        )
        tables = [name for (name,) in cursor.fetchall()]
        found = []
        for table in tables:
            cursor.execute(f'SELECT t::text FROM "{table}" AS t')
            found += [row for (row,) in cursor.fetchall()]
    return "\n".join(found)


def _secrets(user: User) -> dict[str, str]:
    """One of each kind that somebody could come in with."""
    _, worker = operations.create_worker("w1", queues=["chat"], owner=user)
    _, token = accounts.create_token(user, name="tests")
    link = accounts.one_time_link(user).rstrip("/").rpartition("/")[2]
    _, webhook = webhooks.add(Source.GITHUB)
    _, sandbox = webhooks.create_token("box-1")
    return {"worker": worker, "token": token, "link": link, "webhook": webhook, "sandbox": sandbox}


def test_no_key_is_stored_in_clear() -> None:
    """Neither a key nor a link that logs in nor a webhook's secret is in any column of any table."""
    made = _secrets(User.objects.create_user("ada", password=farm.PASSWORD))
    rows = _all_rows()
    assert {name for name, secret in made.items() if secret in rows} == set()
    assert farm.PASSWORD not in rows
    assert made["worker"][:8] in rows  # its hint: the search sees what is there


class TestTheWorkersSocket:
    @pytest.mark.parametrize("with_", ["nothing", "session", "token", "revoked"])
    def test_opens_for_a_workers_key_alone(self, talkative: Server, with_: str) -> None:
        user = User.objects.create_superuser("root")
        browser = Client()
        browser.force_login(user)
        crew = callers.crew(talkative)
        if with_ == "revoked":
            operations.revoke(crew.worker)
        headers = {
            "nothing": {},
            "session": {"Cookie": f"sessionid={browser.cookies['sessionid'].value}"},
            "token": callers.bearer(accounts.create_token(user, name="tests")[1]),
            "revoked": callers.bearer(crew.key),
        }[with_]
        with connect(f"{talkative.ws_url}/ws/worker/", additional_headers=headers) as socket:
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(PATIENCE_S)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4401


class TestTheBrowsersSocket:
    @pytest.mark.parametrize(
        "origin", ["https://evil.example", "null", None, "http://127.0.0.1:1", "http://127.0.0.1", "https://{host}"]
    )
    def test_opens_for_pages_of_this_site_alone(self, talkative: Server, origin: str | None) -> None:
        headers = {} if origin is None else {"Origin": origin.format(host=talkative.url.removeprefix("http://"))}
        with pytest.raises(InvalidStatus) as refused:
            connect(f"{talkative.ws_url}/ws/live/", additional_headers=headers)
        assert refused.value.response.status_code == 403

    def test_opens_for_a_page_of_this_site(self, talkative: Server) -> None:
        with connect(f"{talkative.ws_url}/ws/live/", additional_headers={"Origin": talkative.url}) as socket:
            socket.send('{"ping": 1}')
            assert json.loads(socket.recv(PATIENCE_S)) == {"pong": True}


def test_no_log_line_holds_a_secret(talkative: Server) -> None:
    """Of a server that logs all it can, while every kind of secret comes in, in its right place and in wrong ones."""
    user = User.objects.create_user("ada", password=farm.PASSWORD)
    made, logged_before = _secrets(user), len(talkative.log)
    crew = Crew(talkative, operations.authenticate(made["worker"]), made["worker"])
    operations.submit("chat", {}, owner=user)
    job = crew.claim_one()
    made |= {"lease": job["lease"].partition("-")[2], "password": farm.PASSWORD}
    crew.post(f"jobs/{job['id']}/finish", lease=job["lease"], outcome="nonsense")
    with crew.socket() as socket:
        callers.ask(socket, type="heartbeat", job=job["id"], lease=job["lease"])
        callers.ask(socket, type="heartbeat", job=job["id"], lease=job["lease"], why=made["worker"])
    _come_to_the_door(talkative.url, made)
    callers.close_all()
    logged = talkative.log[logged_before:]
    assert "Forbidden" in logged  # something was said
    assert {name for name, secret in made.items() if secret in logged} == set()


def _come_to_the_door(url: str, made: dict[str, str]) -> None:
    with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
        page = client.get("/accounts/login/")
        form = {"login": "ada", "password": farm.PASSWORD, "csrfmiddlewaretoken": page.cookies["csrftoken"]}
        client.post("/accounts/login/", data=form)
        client.post("/accounts/login/", data={**form, "csrfmiddlewaretoken": "wrong"})
        client.get(f"/accounts/link/{made['link']}/")
        client.get("/api/v1/jobs", headers=callers.bearer(made["token"]))
        client.post("/api/v1/jobs", headers=callers.bearer(made["token"]), content=b"\xff", params={"key": "x"})
        client.get("/no/such/page", headers=callers.bearer(made["worker"]))
        client.post("/api/webhooks/github", json={}, headers={"X-Hub-Signature-256": f"sha256={made['webhook']}"})
        client.post("/api/sandbox/hook-events", json={}, headers=callers.bearer(made["sandbox"]))
