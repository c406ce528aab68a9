"""Calls that are sent again since their answer was lost: Idempotency-Key over real connections."""

import json
import re
import socket
import struct
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from accounts import operations as accounts
from jobs import operations
from jobs.models import Job
from tests import documented, farm
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
ONE = {"kind": "chat", "payload": {"prompt": "Why?"}}
CALLS = [("/api/v1/jobs", ONE), ("/api/v1/jobs/bulk", {"jobs": [ONE] * 60})]


def _ids(response: httpx.Response) -> list[int]:
    assert response.status_code == 201, response.text
    document = response.json()
    return [job["id"] for job in document.get("jobs", [document])]


def _sent_and_cut(
    client: httpx.Client, path: str, body: Any, key: str, *, until: Callable[[], Any] = lambda: True
) -> None:
    """Send a whole request and cut the connection, once `until` is true, without reading any of its answer."""
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {client.base_url.host}\r\nContent-Type: application/json\r\n"
        f"Authorization: {client.headers['Authorization']}\r\nIdempotency-Key: {key}\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    at = urlsplit(str(client.base_url))
    with socket.create_connection((at.hostname, at.port)) as connected:
        connected.sendall(head.encode() + content)
        farm.until(until)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed by a reset


class TestALostAnswer:
    @pytest.mark.parametrize(("path", "body"), CALLS, ids=["one", "bulk"])
    def test_is_had_by_sending_the_same_again(self, client: httpx.Client, path: str, body: Any) -> None:
        """Cut right after the request: whatever the server has done by then, each key comes to one submit."""
        made = []
        for n in range(20):
            _sent_and_cut(client, path, body, f"key {n}")
            made += _ids(client.post(path, json=body, headers={"Idempotency-Key": f"key {n}"}))
        assert sorted(made) == sorted(Job.objects.values_list("pk", flat=True))
        assert len(made) == 20 * len(body.get("jobs", [None]))

    def test_of_what_was_carried_out_is_what_it_was(self, client: httpx.Client) -> None:
        _sent_and_cut(client, "/api/v1/jobs", ONE, "k", until=Job.objects.exists)
        job = Job.objects.get().pk
        assert _ids(client.post("/api/v1/jobs", json=ONE, headers={"Idempotency-Key": "k"})) == [job]

    def test_of_a_retry_makes_one_job(self, client: httpx.Client, ada: User) -> None:
        old = operations.submit("chat", 1, owner=ada)
        operations.cancel(old.pk, by=None)
        path = f"/api/v1/jobs/{old.pk}/retry"
        _sent_and_cut(client, path, {}, "k")
        [again] = _ids(client.post(path, headers={"Idempotency-Key": "k"}))
        assert list(Job.objects.exclude(pk=old.pk).values_list("pk", "retry_of")) == [(again, old.pk)]


class TestAtTheSameMoment:
    @pytest.mark.parametrize(("path", "body"), CALLS, ids=["one", "bulk"])
    def test_sixteen_submit_once_and_are_answered_alike(self, client: httpx.Client, path: str, body: Any) -> None:
        def post(key: str) -> list[int]:
            return _ids(client.post(path, json=body, headers={"Idempotency-Key": key}))

        with ThreadPoolExecutor(16) as pool:
            for n in range(5):
                first, *others = pool.map(post, [f"key {n}"] * 16)
                assert others == [first] * 15
        assert Job.objects.count() == 5 * len(body.get("jobs", [None]))

    def test_while_the_first_is_held_up_for_long_others_are_told_when_to_come_again(
        self, client: httpx.Client, ada: User
    ) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO jobs_idempotencykey (owner_id, key, fingerprint, created_at, job_ids, skipped)"
                " VALUES (%s, 'k', '', now(), '{}', '{}')",
                [ada.pk],
            )
            refused = client.post("/api/v1/jobs", json=ONE, headers={"Idempotency-Key": "k"})
            transaction.set_rollback(True)
        assert (refused.status_code, refused.json()["error"]) == (409, "idempotency_key_in_use")
        assert refused.headers["Retry-After"] == "1" == str(refused.json()["retry_after"])
        assert len(_ids(client.post("/api/v1/jobs", json=ONE, headers={"Idempotency-Key": "k"}))) == 1


class TestTheExampleInTheDocuments:
    def test_submits_once_however_often_it_is_run(self, server: Server, ada: User) -> None:
        example = documented.block("api.md", "key=")
        _, token = accounts.create_token(ada, name="curl")
        shell = {"PATH": "/usr/bin:/bin:/usr/local/bin", "FARM": server.url, "TOKEN": token}
        twice = example + example.split("\n", 1)[1]
        done = subprocess.run(["sh", "-ec", twice], env=shell, capture_output=True, timeout=30, check=True)
        answers = re.findall(r'"id": ?(\d+)', done.stdout.decode())
        assert answers == [str(Job.objects.get().pk)] * 2
