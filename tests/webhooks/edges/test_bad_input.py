"""What bad input gets at the real addresses: the status, what is stored of it, and a server that goes on."""

import gzip
import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest

from tests.servers import Server
from tests.webhooks.edges.sender import post, sample, signed
from webhooks.domain.deliveries import Source
from webhooks.models import Delivery, Refusal
from webhooks.sources import configs

Secrets = dict[Source, str]
UNAUTHORIZED = {"error": "bad_signature", "message": "The request is not signed as this address requires."}


def refusals() -> dict[tuple[str, str], int]:
    return {(row.source, row.reason): row.count for row in Refusal.objects.all()}


def right(source: Source, secrets: Secrets) -> Any:
    body, event_type = sample(source)
    return signed(source, body, secrets[source], event_type=event_type)


@pytest.mark.parametrize("source", Source)
class TestEverySource:
    def test_takes_what_is_right_sets_no_cookie_and_redirects_nobody(
        self, client: httpx.Client, secrets: Secrets, source: Source
    ) -> None:
        answer = post(client, right(source, secrets))
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers
        assert answer.json() == ({} if source is Source.SANDBOX_HOOKS else {"status": "received"})

    def test_takes_what_has_a_nul_in_its_query(self, client: httpx.Client, secrets: Secrets, source: Source) -> None:
        """It was answered 503, and its sender came again and again."""
        assert post(client, replace(right(source, secrets), query={"event": "\x00"})).status_code == 200

    def test_refuses_what_is_unsigned_stores_nothing_and_counts_it(
        self, client: httpx.Client, secrets: Secrets, source: Source
    ) -> None:
        given = right(source, secrets)
        unsigned = {name: value for name, value in given.headers.items() if "signature" not in name.lower()}
        answer = client.post(given.path, content=given.body, headers=unsigned)
        assert (answer.status_code, answer.json()) == (401, UNAUTHORIZED)
        assert refusals() == {(source, "missing_signature"): 1}
        [line] = Refusal.objects.all()
        assert line.last_address == "127.0.0.1"
        assert line.last_bytes == len(given.body)
        assert "content-type" in line.last_header_names
        assert not Delivery.objects.exists()

    def test_refuses_a_signature_over_other_bytes(self, client: httpx.Client, secrets: Secrets, source: Source) -> None:
        given = right(source, secrets)
        answer = client.post(given.path, content=given.body + b" ", headers=dict(given.headers))
        assert (answer.status_code, answer.json()) == (401, UNAUTHORIZED)
        assert refusals() == {(source, "bad_signature"): 1}
        assert not Delivery.objects.exists()

    def test_refuses_a_header_that_is_no_signature(
        self, client: httpx.Client, secrets: Secrets, source: Source
    ) -> None:
        given = right(source, secrets)
        name = next(name for name in given.headers if "signature" in name.lower())
        headers = [(k.encode(), v.encode()) for k, v in given.headers.items() if k != name]
        for value in (b"", b"\xc3\xa9", b"x" * 10_000, b"sha1=00", b"v0,00"):
            answer = client.post(given.path, content=given.body, headers=[*headers, (name.encode(), value)])
            assert (answer.status_code, answer.json()) == (401, UNAUTHORIZED)
        assert not Delivery.objects.exists()

    def test_stores_signed_bytes_that_are_no_json_as_rejected(
        self, client: httpx.Client, secrets: Secrets, source: Source
    ) -> None:
        body = b'{"a":\x00 \xff'
        for _ in range(2):
            answer = post(client, signed(source, body, secrets[source]))
            assert answer.status_code == 400
            assert answer.json()["error"] == "rejected"
        [delivery] = Delivery.objects.all()
        assert (delivery.status, bytes(delivery.body), delivery.duplicates) == ("rejected", body, 1)
        assert "not UTF-8" in (delivery.note or "")

    def test_refuses_a_body_over_its_limit_announced_or_not(
        self, client: httpx.Client, secrets: Secrets, source: Source
    ) -> None:
        limit = configs.CONFIGS[source].body_limit
        given = signed(source, b'"' + b"x" * limit + b'"', secrets[source])

        def chunks() -> Iterator[bytes]:
            for start in range(0, len(given.body), 1 << 20):
                yield given.body[start : start + (1 << 20)]

        announced = post(client, given)
        chunked = client.post(given.path, content=chunks(), headers=dict(given.headers))
        assert [announced.status_code, chunked.status_code] == [413, 413]
        assert announced.json()["limit"] == limit
        assert refusals() == {(source, "too_large"): 2}
        assert not Delivery.objects.exists()

    def test_takes_post_alone(self, client: httpx.Client, source: Source) -> None:
        for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"):
            answer = client.request(method, configs.CONFIGS[source].path)
            assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")

    def test_is_at_one_address_alone(self, client: httpx.Client, source: Source) -> None:
        path = configs.CONFIGS[source].path
        answers = [client.post(other).status_code for other in (f"{path}/", f"{path}x", path.upper(), f"/x{path}")]
        assert answers == [404, 404, 404, 404]

    def test_refuses_what_is_encoded_further(self, client: httpx.Client, secrets: Secrets, source: Source) -> None:
        body, event_type = sample(source)
        packed = gzip.compress(json.dumps(body).encode())
        given = signed(source, packed, secrets[source], event_type=event_type, Content_Encoding="gzip")
        assert post(client, given).status_code == 415
        assert refusals() == {(source, "unsupported_media_type"): 1}

    def test_refuses_another_media_type(self, client: httpx.Client, secrets: Secrets, source: Source) -> None:
        given = right(source, secrets)
        headers = {**given.headers, "Content-Type": "application/xml"}
        assert client.post(given.path, content=given.body, headers=headers).status_code == 415


@pytest.mark.parametrize("source", [Source.CLERK, Source.STRIPE, Source.SANDBOX_COMPLETION])
@pytest.mark.parametrize(("offset_s", "why"), [(-330, "too_old"), (330, "too_new"), (10**8, "too_new")])
def test_a_time_stamp_that_is_off_is_refused(
    client: httpx.Client, secrets: Secrets, source: Source, offset_s: int, why: str
) -> None:
    body, _ = sample(source)
    now = datetime.now(UTC) + timedelta(seconds=offset_s)
    answer = post(client, signed(source, body, secrets[source], now=now))
    assert (answer.status_code, answer.json()) == (401, UNAUTHORIZED)
    assert refusals() == {(source, why): 1}


@pytest.mark.parametrize("source", [Source.JIRA, Source.CONFLUENCE])
@pytest.mark.parametrize(("offset", "status"), [(-25, 401), (-23, 200), (1, 401)])
def test_atlassians_signed_body_bounds_its_own_age(
    client: httpx.Client, secrets: Secrets, source: Source, offset: int, status: int
) -> None:
    body, _ = sample(source)
    at = datetime.now(UTC) + timedelta(hours=offset)
    given = signed(source, {**dict(body), "timestamp": int(at.timestamp() * 1000)}, secrets[source])
    assert post(client, given).status_code == status


class TestBombs:
    @pytest.mark.parametrize(
        "body",
        [
            b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
            b"[" * 500_000,
            b'{"n":' + b"9" * 500_000 + b"}",
            b'{"a":1,"a":2}',
            b'{"a":NaN}',
            b'{"a":1e999}',
            b'"' + b'\\"[' * 300_000,
        ],
        ids=["nested", "open", "digits", "twice", "nan", "infinite", "quotes"],
    )
    def test_are_stored_as_rejected_and_the_server_goes_on(
        self, client: httpx.Client, secrets: Secrets, server: Server, body: bytes
    ) -> None:
        answer = post(client, signed(Source.GITHUB, body, secrets[Source.GITHUB], event_type="push"))
        assert answer.status_code == 400
        [delivery] = Delivery.objects.all()
        assert (delivery.status, bytes(delivery.body)) == ("rejected", body)
        assert post(client, right(Source.STRIPE, secrets)).status_code == 200
        assert "Traceback" not in server.log

    def test_a_nul_is_kept_in_the_bytes(self, client: httpx.Client, secrets: Secrets) -> None:
        body = json.dumps({"hook_event_name": "TestEvent", "out": "a\x00b \ud800"}).encode()
        assert post(client, signed(Source.SANDBOX_HOOKS, body, secrets[Source.SANDBOX_HOOKS])).status_code == 200
        assert bytes(Delivery.objects.get().body) == body


class TestEnvelopes:
    def test_that_are_unusable_are_rejected_with_the_reason(self, client: httpx.Client, secrets: Secrets) -> None:
        answer = post(client, signed(Source.CLERK, {"type": "x" * 300}, secrets[Source.CLERK]))
        assert answer.status_code == 400
        assert answer.json()["message"] == (
            "The request cannot be taken: type is longer than 255 characters, or not printable."
        )

    def test_an_id_that_no_column_takes_is_rejected_not_an_error(self, client: httpx.Client, secrets: Secrets) -> None:
        given = signed(Source.CLERK, {"type": "a"}, secrets[Source.CLERK], delivery_id="m" * 300)
        assert post(client, given).status_code == 400
        assert Delivery.objects.get().delivery_id.startswith("sha256:")

    def test_a_form_of_github_is_read(self, client: httpx.Client, secrets: Secrets) -> None:
        body = urlencode({"payload": json.dumps({"zen": "Ærø", "action": "opened"})}).encode()
        given = signed(Source.GITHUB, body, secrets[Source.GITHUB], event_type="issues")
        headers = {**given.headers, "Content-Type": "application/x-www-form-urlencoded"}
        assert client.post(given.path, content=body, headers=headers).status_code == 200
        delivery = Delivery.objects.get()
        assert (delivery.event_type, bytes(delivery.body)) == ("issues.opened", body)

    def test_text_of_the_tail_worker_is_read(self, client: httpx.Client, secrets: Secrets) -> None:
        given = right(Source.SANDBOX_TELEMETRY, secrets)
        headers = {**given.headers, "Content-Type": "text/plain;charset=UTF-8"}
        assert client.post(given.path, content=given.body, headers=headers).status_code == 200


class TestConnections:
    def test_a_chunked_body_is_taken(self, client: httpx.Client, secrets: Secrets) -> None:
        given = right(Source.GITHUB, secrets)
        answer = client.post(given.path, content=iter([given.body[:7], given.body[7:]]), headers=dict(given.headers))
        assert answer.status_code == 200
        assert bytes(Delivery.objects.get().body) == given.body

    def test_a_header_that_comes_twice_is_no_signature(self, server: Server, secrets: Secrets) -> None:
        given = right(Source.GITHUB, secrets)
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
        connection.putrequest("POST", given.path)
        for name, value in [*given.headers.items(), ("X-Hub-Signature-256", "sha256=00")]:
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(given.body)))
        connection.endheaders(given.body)
        assert connection.getresponse().status == 401
        connection.close()

    def test_a_sender_that_hangs_up_leaves_nothing(
        self, client: httpx.Client, server: Server, secrets: Secrets
    ) -> None:
        given = right(Source.GITHUB, secrets)
        head = "".join(f"{name}: {value}\r\n" for name, value in given.headers.items())
        text = f"POST {given.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n{head}\r\n{{"
        with socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0)) as sock:
            sock.sendall(text.encode())
        assert post(client, given).status_code == 200
        assert Delivery.objects.count() == 1
        assert "Traceback" not in server.log
