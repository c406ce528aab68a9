"""One request: what it is answered, how long it may take, and where it does not go."""

import asyncio
import ssl
import time
from collections.abc import Sequence

import pytest
import trustme
from pytest_django import Settings

from outbox import operations
from outbox.operations.http import Client
from tests.outbox import receivers
from tests.outbox.receivers import HERE, receiver

NOWHERE = "This host has no address, or one of a private network, and the farm sends nothing there."


@pytest.fixture(autouse=True)
def _this_machine(settings: Settings) -> None:
    settings.OUTBOX = {**settings.OUTBOX, "ALLOWED_NETWORKS": HERE, "TIMEOUT_S": 5.0}


def post(url: str, *, client: Client, timeout_s: float = 5.0) -> operations.Answer:
    async def send() -> operations.Answer:
        async with client:
            return await client.post(url, b"{}", headers={}, timeout_s=timeout_s)

    return asyncio.run(send())


def client(*answers: str, tls: ssl.SSLContext | None = None, allowed: bool = True) -> Client:
    """A client whose resolver answers with these in turn, and with the last for ever."""
    left = list(answers)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return [left.pop(0) if len(left) > 1 else left[0]]

    return Client(allowed=HERE if allowed else (), resolve=resolve, tls=tls)


class TestAnAnswer:
    def test_has_status_headers_body_and_time(self) -> None:
        with receiver(status=202) as there:
            there.body, there.headers = b"thanks", {"X-Seen": "yes"}
            answer = operations.send(there.url(), b'{"a":1}', headers={"webhook-id": "msg_1"})
        assert (answer.status, answer.is_accepted, answer.text, answer.error) == (202, True, "thanks", "")
        assert answer.headers["x-seen"] == "yes"
        [request] = there.requests
        assert (request.body, request.headers["webhook-id"], request.path) == (b'{"a":1}', "msg_1", "/hook")
        assert request.headers["user-agent"] == "jobfarm"

    def test_of_a_redirect_is_not_followed(self) -> None:
        with receiver() as elsewhere, receiver(status=302) as there:
            there.headers = {"Location": elsewhere.url()}
            answer = operations.send(there.url(), b"")
        assert (answer.status, answer.is_accepted, elsewhere.requests) == (302, False, [])

    def test_without_end_is_read_to_4_kb(self) -> None:
        with receiver(receivers.floods) as there:
            answer = operations.send(there.url(), b"")
        assert (answer.status, answer.body) == (200, b"y" * 4096)

    def test_that_drips_ends_at_the_deadline_of_the_whole(self) -> None:
        with receiver(receivers.drips) as there:
            answer = operations.send(there.url(), b"", timeout_s=0.5)
        assert (answer.status, answer.error) == (None, "It did not answer within 0.5 s.")

    def test_that_does_not_come_ends_at_the_deadline(self) -> None:
        with receiver(receivers.hangs) as there:
            answer = operations.send(there.url(), b"", timeout_s=0.3)
        assert answer.error == "It did not answer within 0.3 s."

    def test_of_who_hangs_up_is_an_error_that_does_not_repeat_the_address(self) -> None:
        with receiver(receivers.hangs_up) as there:
            answer = operations.send(there.url("/secret-path"), b"")
        assert answer.status is None
        assert answer.error
        assert "secret-path" not in repr(answer)

    def test_of_nobody_is_an_error(self) -> None:
        with receiver() as there:
            url = there.url()
        assert "connect" in operations.send(url, b"").error.lower()

    def test_that_is_no_http_is_an_error(self) -> None:
        async def talks_smtp(_: object, writer: asyncio.StreamWriter, __: object) -> None:
            writer.write(b"220 mail ESMTP\r\n\r\n")
            writer.close()

        with receiver(talks_smtp) as there:
            assert operations.send(there.url(), b"").error


class TestNoWayIn:
    def test_leads_to_this_machine(self, settings: Settings) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "ALLOWED_NETWORKS": ()}
        with receiver() as there:
            for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0"):
                answer = operations.send(there.url(host=host), b"")
                assert answer.error == NOWHERE, host
                assert answer.status is None
        assert there.connections == 0

    def test_is_opened_by_a_name_that_is_answered_differently_a_moment_later(self) -> None:
        """DNS rebinding: public when it is judged, this machine afterwards. It is names once, and connected to so."""
        with receiver() as there:
            answer = post(there.url(host="rebind.example"), client=client("192.0.2.1", "127.0.0.1", allowed=False))
            assert answer.error == NOWHERE
            names: list[str] = []

            async def resolve(host: str, port: int) -> Sequence[str]:
                names.append(host)
                return ["127.0.0.1"] if len(names) == 1 else ["10.0.0.1"]

            answer = post(there.url(host="rebind.example"), client=Client(allowed=HERE, resolve=resolve))
        assert (answer.status, names) == (204, ["rebind.example"])

    def test_is_opened_by_one_private_address_among_public_ones(self) -> None:
        async def resolve(host: str, port: int) -> Sequence[str]:
            return ["1.1.1.1", "10.0.0.1"]

        assert post("http://mixed.example/", client=Client(allowed=(), resolve=resolve)).error == NOWHERE

    def test_is_a_proxy_of_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with receiver() as proxy, receiver() as there:
            monkeypatch.setenv("HTTP_PROXY", proxy.url("/"))
            monkeypatch.setenv("ALL_PROXY", proxy.url("/"))
            assert operations.send(there.url(), b"").status == 204
        assert proxy.connections == 0

    def test_a_name_that_stands_for_nothing_is_told_like_one_inside(self) -> None:
        async def resolve(host: str, port: int) -> Sequence[str]:
            raise OSError("no such name")

        answer = post("http://nowhere.example/", client=Client(allowed=(), resolve=resolve))
        assert answer.error == NOWHERE

    def test_a_name_server_that_hangs_costs_the_deadline(self) -> None:
        async def resolve(host: str, port: int) -> Sequence[str]:
            await asyncio.Event().wait()
            return []

        began_at = time.monotonic()
        answer = post("http://slow.example/", client=Client(allowed=(), resolve=resolve), timeout_s=0.3)
        assert answer.error == "It did not answer within 0.3 s."
        assert time.monotonic() - began_at < 10


class TestTls:
    """The connection goes to an address, and the certificate is that of the name."""

    @pytest.fixture
    def authority(self) -> trustme.CA:
        return trustme.CA()

    def server(self, authority: trustme.CA, name: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(name).configure_cert(context)
        return context

    def trusting(self, authority: trustme.CA) -> ssl.SSLContext:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    def test_verifies_the_name(self, authority: trustme.CA) -> None:
        with receiver(tls=self.server(authority, "hooks.example")) as there:
            good = post(there.url(host="hooks.example"), client=client("127.0.0.1", tls=self.trusting(authority)))
            other = post(there.url(host="other.example"), client=client("127.0.0.1", tls=self.trusting(authority)))
            bare = post(there.url(), client=client("127.0.0.1", tls=self.trusting(authority)))
        assert good.status == 204
        assert other.status is bare.status is None
        assert "certificate" in other.error.lower()
        assert "certificate" in bare.error.lower()

    def test_trusts_no_stranger(self, authority: trustme.CA) -> None:
        with receiver(tls=self.server(authority, "localhost")) as there:
            answer = operations.send(there.url(host="localhost"), b"")
        assert answer.status is None
        assert "certificate" in answer.error.lower()
        assert there.requests == []
