"""A farm behind the proxies of deploy/: nginx and Caddy run with these files, TLS and all."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from django.contrib.auth.models import User
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from accounts import operations as accounts
from jobs import operations
from tests import farm
from tests.operations import proxies
from tests.operations.proxies import Proxy
from tests.ports import free_port
from tests.servers import Server, serve

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_S = 20
OF_METRICS = "of-prometheus" * 3
Start = Callable[..., AbstractContextManager[Proxy]]


@pytest.fixture
def node(transactional_db: None) -> Iterator[Server]:
    with serve(
        LOG_LEVEL="INFO", JOBFARM_LOG="json", FORWARDED_ALLOW_IPS="127.0.0.1", JOBFARM_METRICS_TOKEN=OF_METRICS
    ) as server:
        yield server


@pytest.fixture(params=[proxies.nginx, proxies.caddy], ids=["nginx", "caddy"])
def proxy(request: pytest.FixtureRequest, node: Server, tmp_path: Path) -> Iterator[Proxy]:
    """Two nodes are named, and one of them is down."""
    start: Start = request.param
    with start(tmp_path, nodes=(free_port(), int(node.url.rpartition(":")[2]))) as running:
        yield running


def test_a_farm_behind_a_proxy_is_whole(proxy: Proxy, node: Server, ada: User) -> None:
    """One start of each proxy for all that it must do (docs/operations.md, A proxy with TLS)."""
    farm.kind()
    _, token = accounts.create_token(ada, name="tests")
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=proxy.url, headers=headers, verify=proxies.trusting(), timeout=PATIENCE_S) as client:
        for _ in range(6):  # one of the two nodes is down: nobody sees it
            assert client.get("/accounts/login/").status_code == 200
        assert client.get("/metrics", headers={"Authorization": f"Bearer {OF_METRICS}"}).status_code == 404
        _keeps_request_ids(client, node)
        _is_not_buffered(client)
    _passes_sockets(proxy)
    if proxy.plain_port is not None:
        answer = httpx.get(f"http://127.0.0.1:{proxy.plain_port}/jobs/")
        assert (answer.status_code, answer.headers["location"]) == (301, "https://127.0.0.1/jobs/")


def _keeps_request_ids(client: httpx.Client, node: Server) -> None:
    """The client's own where it has one, else one that the proxy makes; the farm logs and answers it."""
    answer = client.get("/api/v1/jobs", headers={"X-Request-ID": "of-the-client-1", "X-Forwarded-For": "192.0.2.7"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (200, "of-the-client-1")
    made = client.get("/api/v1/jobs").headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f-]{32,36}", made)
    [line] = farm.until(lambda: [row for row in _lines(node) if row.get("request_id") == "of-the-client-1"])
    assert line["client"] == "127.0.0.1", "what a client says of its address is thrown away"
    assert farm.until(lambda: [row for row in _lines(node) if row.get("request_id") == made])


def _lines(node: Server) -> list[dict[str, object]]:
    return [json.loads(line) for line in node.log.splitlines() if line.startswith("{")]


def _is_not_buffered(client: httpx.Client) -> None:
    """Events come while their stream is open, and a file of 50 MB goes through."""
    worker, key = operations.create_worker("w", queues=["work"])
    of_worker = {"Authorization": f"Bearer {key}"}
    job = client.post("/api/v1/jobs", json={"kind": "work", "payload": {}}).json()["id"]
    claimed = farm.claim_one(worker)
    with client.stream("GET", f"/api/v1/jobs/{job}/events") as stream:
        lines = stream.iter_lines()
        assert any("in_progress" in line for line in lines)
        address = f"/api/v1/worker/jobs/{job}/files/film.mp4?lease={claimed.lease}"
        put = client.put(address, content=bytes(50_000_000), headers=of_worker)
        assert put.status_code == 201, put.text
        farm.succeed(worker, claimed)
        assert any("success" in line for line in lines)


def _passes_sockets(proxy: Proxy) -> None:
    address = proxy.url.replace("https", "wss") + "/ws/worker/"
    with (
        connect(address, ssl=proxies.trusting(), additional_headers={"Authorization": "Bearer no-key"}) as socket,
        pytest.raises(ConnectionClosed) as closed,
    ):
        socket.recv(PATIENCE_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401
