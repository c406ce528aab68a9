"""The catalog of models, asked of real servers."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from pytest_django import Settings

from scheduling import operations as scheduling
from webhooks.models.resources import CatalogModel, ModelServer
from webhooks.operations import maintenance, maintenance as offers, refresh_model_catalog

pytestmark = pytest.mark.usefixtures("transactional_db")


class Answers(BaseHTTPRequestHandler):
    """What each address answers, and who asked."""

    given: ClassVar[dict[str, tuple[int, bytes]]] = {}
    requests: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        """Answer as was said."""
        self.requests.append((self.path, self.headers["Authorization"]))
        if self.path == "/drips/models":
            self._drip()
            return
        status, body = self.given[self.path]
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/good/models")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _drip(self) -> None:
        """Begin a line, and never end it."""
        with suppress(OSError):
            while True:
                self.wfile.write(b"H")
                self.wfile.flush()
                time.sleep(0.05)

    def log_message(self, *_: Any) -> None:
        """Not in the tests' output."""


@pytest.fixture
def server(settings: Settings, transactional_db: None) -> Iterator[str]:
    """A server of models; its address."""
    ModelServer.objects.all().delete()
    Answers.given, Answers.requests = {}, []
    settings.LLM_API_KEY = ""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{made.server_address[1]}"
        finally:
            made.shutdown()
            thread.join()
    ModelServer.objects.all().delete()


def offer(path: str, *names: str) -> None:
    entries = [{"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "lab"} for name in names]
    Answers.given[path] = (200, json.dumps({"object": "list", "data": entries}).encode())


def refresh() -> Any:
    """What the action comes to, run by the scheduler with its guards."""
    row = scheduling.run_after(0, refresh_model_catalog)
    scheduling.run_due()
    row.refresh_from_db()
    assert row.status == "success", row.error
    return row.result


def present() -> set[tuple[str, str]]:
    rows = CatalogModel.objects.filter(gone_at=None).values_list("server_id", "name")
    return {(url.rpartition("/")[2], name) for url, name in rows}


class TestTheCatalog:
    def test_is_what_every_server_offers_now(self, server: str, settings: Settings) -> None:
        settings.LLM_SERVERS = [f"{server}/good", f"{server}/other/"]
        offer("/good/models", "llama", "qwen")
        offer("/other/models", "llama")
        assert refresh() == {f"{server}/good": 2, f"{server}/other/": 1}
        model = CatalogModel.objects.get(name="qwen")
        assert (model.owned_by, model.made_at and model.made_at.year) == ("lab", 2023)

        offer("/good/models", "qwen", "mistral")
        refresh()
        kept = dict(CatalogModel.objects.filter(server=f"{server}/good").values_list("name", "gone_at"))
        assert {name for name, gone_at in kept.items() if gone_at is None} == {"qwen", "mistral"}
        assert kept["llama"] is not None

        offer("/good/models", "llama")
        refresh()
        assert CatalogModel.objects.get(server=f"{server}/good", name="llama").gone_at is None

    @pytest.mark.parametrize(
        ("status", "body", "message"),
        [
            (500, b"{}", "500"),
            (401, b"{}", "401"),
            (302, b"", "302"),
            (200, b"<html>", "not JSON"),
            (200, b'{"models": []}', "no list named data"),
            (200, b'{"data": "' + b"x" * 5_000_001 + b'"}', "larger than 5000000 bytes"),
        ],
    )
    def test_keeps_what_it_had_of_a_server_that_answers_nonsense(
        self, server: str, settings: Settings, status: int, body: bytes, message: str
    ) -> None:
        settings.LLM_SERVERS = [f"{server}/good", f"{server}/other"]
        offer("/good/models", "llama")
        offer("/other/models", "qwen")
        refresh()
        Answers.given["/good/models"] = (status, body)
        outcome = refresh()
        assert (message in outcome[f"{server}/good"], outcome[f"{server}/other"]) == (True, 1)
        assert present() == {("good", "llama"), ("other", "qwen")}
        row = ModelServer.objects.get(url=f"{server}/good")
        assert message in (row.error or "")
        assert row.answered_at is not None
        assert row.polled_at is not None
        assert row.polled_at > row.answered_at

    def test_gives_up_one_that_answers_a_byte_at_a_time_and_asks_the_others(
        self, server: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(maintenance, "_TIMEOUT_S", 0.5)
        settings.LLM_SERVERS = [f"{server}/drips", f"{server}/good"]
        offer("/good/models", "llama")
        outcome = refresh()
        assert outcome[f"{server}/drips"] == "TimeoutError: no whole answer within 0.5 s"
        assert (outcome[f"{server}/good"], present()) == (1, {("good", "llama")})

    def test_keeps_what_the_others_answer_when_what_one_does_cannot_be_kept(
        self, server: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.LLM_SERVERS = [f"{server}/bad", f"{server}/good"]
        offer("/bad/models", "long")
        offer("/good/models", "llama")
        too_long = [("x" * 300, "", None)]
        plain = offers.read
        monkeypatch.setattr(offers, "read", lambda document: too_long if "long" in str(document) else plain(document))
        outcome = refresh()
        assert outcome[f"{server}/bad"].startswith("DataError: ")
        assert (outcome[f"{server}/good"], present()) == (1, {("good", "llama")})

    def test_says_which_server_is_not_there_and_recovers(self, server: str, settings: Settings) -> None:
        settings.LLM_SERVERS = ["http://127.0.0.1:9/v1", "no address at all"]
        outcome = refresh()
        assert {url: error.partition(":")[0] for url, error in outcome.items()} == {
            "http://127.0.0.1:9/v1": "ConnectError",
            "no address at all": "UnsupportedProtocol",
        }
        assert all(row.error and row.answered_at is None for row in ModelServer.objects.all())

    def test_forgets_a_server_that_nobody_names_any_more(self, server: str, settings: Settings) -> None:
        settings.LLM_SERVERS = [f"{server}/good"]
        offer("/good/models", "llama")
        refresh()
        settings.LLM_SERVERS = []
        assert refresh() == {}
        assert not CatalogModel.objects.exists()
        assert not ModelServer.objects.exists()

    def test_is_asked_for_with_the_key(self, server: str, settings: Settings) -> None:
        settings.LLM_SERVERS = [f"{server}/good"]
        offer("/good/models", "llama")
        refresh()
        settings.LLM_API_KEY = "sk-1"
        refresh()
        assert Answers.requests == [("/good/models", None), ("/good/models", "Bearer sk-1")]
