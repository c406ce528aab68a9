"""The client's parts on their own: events from a stream's text, refusals by their codes, when a call is repeated."""

import json
import math
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import jobfarm_client
from jobfarm_client import (
    AsyncClient,
    BadOption,
    Client,
    NewJob,
    NotFound,
    NotUnique,
    Refused,
    Unauthorized,
    Unreachable,
)
from jobfarm_client.backoff import LONGEST_PAUSE_S, Patience
from jobfarm_client.errors import BY_CODE, refusal
from jobfarm_client.following import Parser
from jobfarm_client.models import Event, Job, as_json
from tests.looped import looped

TEXTS = st.lists(st.text(max_size=20), max_size=6)


def stream(texts: list[str]) -> str:
    """A stream of the farm's: a retry time, a ping between any two events."""
    events = (
        f"event: output\nid: 1.{seq + 1}.\ndata: {json.dumps({'seq': seq, 'text': text})}\n\n"
        for seq, text in enumerate(texts)
    )
    return "retry: 2000\n\n" + ": still here\n\n".join(events)


class TestParser:
    @settings(deadline=None)
    @given(TEXTS, st.randoms(use_true_random=False))
    def test_brings_every_event_once_however_it_is_cut(self, texts: list[str], rng: random.Random) -> None:
        parser, rest = Parser(), stream(texts)
        events: list[Event] = []
        while rest:
            size = rng.randint(1, 30)
            events += parser.events(rest[:size])
            rest = rest[size:]
        expected = [
            Event(name="output", id=f"1.{n + 1}.", data={"seq": n, "text": text}) for n, text in enumerate(texts)
        ]
        assert events == expected

    def test_an_id_without_data_moves_the_stream_on_and_one_goes_for_all_behind_it(self) -> None:
        parser = Parser("5")
        [first] = parser.events("event: job\ndata: {}\n\n: still here\nid: 6\n\n")
        assert (first.id, parser.last_id) == ("5", "6")
        [second] = parser.events("event: job\ndata: {}\n\n")
        assert second.id == "6"

    @looped("data", ["<p>", "1", "[" * 100_000])
    def test_refuses_what_is_no_object(self, data: str) -> None:
        with pytest.raises(Unreachable):
            list(Parser().events(f"event: job\ndata: {data}\n\n"))


class TestRefusals:
    @looped("code", BY_CODE)
    def test_have_the_class_of_their_code(self, code: str) -> None:
        error = refusal(status=409, data={"error": code, "message": "No.", "job": 7})
        assert (type(error), error.code, str(error), error.job) == (BY_CODE[code], code, "No.", 7)

    def test_have_the_classes_that_the_package_names(self) -> None:
        named = {each for each in vars(jobfarm_client).values() if isinstance(each, type) and issubclass(each, Refused)}
        assert named == {*BY_CODE.values()}

    def test_are_never_of_a_class_that_an_application_made_of_ours(self) -> None:
        class Missing(NotFound, code="not_found"):
            def __init__(self) -> None:
                super().__init__(status=404, code=self.code, message="", details={})

        assert type(refusal(status=404, data={"error": Missing.code})) is NotFound

    def test_of_a_code_that_is_new_keep_it(self) -> None:
        error = refusal(status=418, data={"error": "teapot"})
        assert (type(error), error.code, error.status, error.job) == (Refused, "teapot", 418, None)


def refused(status: int, **data: Any) -> Refused:
    return refusal(status=status, data={"error": "some", **data})


def patience(retry_for_s: float = 60.0) -> Patience:
    return Patience(retry_for_s, rng=random.Random(1))


class TestPatience:
    @pytest.mark.parametrize("error", [Unreachable(), refused(429), refused(503), refused(500)])
    def test_repeats_what_may_go_well_later(self, error: Any) -> None:
        waiting = patience()
        assert all(0 <= waiting.pause_s(error) <= LONGEST_PAUSE_S for _ in range(20))

    def test_waits_as_long_as_the_farm_says(self) -> None:
        assert patience().pause_s(refused(429, retry_after=30)) == 30

    @pytest.mark.parametrize("error", [Unauthorized(), refused(422), refused(404), refused(409)])
    def test_raises_what_stays_as_it_is(self, error: Any) -> None:
        with pytest.raises(type(error)):
            patience().pause_s(error)

    def test_raises_when_the_time_would_be_over(self) -> None:
        with pytest.raises(Unreachable):
            patience(0).pause_s(Unreachable())
        with pytest.raises(Refused):
            patience(10).pause_s(refused(503, retry_after=11))


class TestModels:
    def test_leave_out_what_a_newer_farm_adds(self) -> None:
        job = Job.from_json({
            "id": 7, "kind": "chat", "queue": "chat", "status": "success", "colour": "green",
            "created_at": "2026-11-22T10:00:00Z", "files": [{"name": "a.png", "size": 3, "url": "/a"}],
        })  # fmt: skip
        assert (job.id, job.has_ended, job.files[0].size) == (7, True, 3)
        assert job.created_at == datetime(2026, 11, 22, 10, tzinfo=UTC)

    def test_send_only_what_is_set(self) -> None:
        moment = datetime(2030, 1, 31, tzinfo=UTC)
        assert as_json(NewJob(kind="chat")) == {"kind": "chat", "payload": None}
        assert as_json(NewJob(kind="chat", priority=0, run_at=moment)) == {
            "kind": "chat", "payload": None, "priority": 0, "run_at": "2030-01-31T00:00:00+00:00",
        }  # fmt: skip


class TestOptions:
    @pytest.mark.parametrize(
        ("url", "token", "sentence"),
        [
            ("", "t", "Which farm"), ("localhost:8000", "t", "is not the address"), ("http://h", " ", "Whose jobs"),
            ("http://h", "two words", "no key has"), ("http://farm..example", "t", "is not the address"),
            ("http://1.2.3.999", "t", "is not the address"), ("http://xn--zz", "t", "is not the address"),
        ],
    )  # fmt: skip
    def test_are_checked_before_anything_is_sent(self, url: str, token: str, sentence: str) -> None:
        with pytest.raises(BadOption, match=sentence):
            Client(url, token)

    @looped("timeout_s", [0, math.inf, math.nan])
    def test_have_a_timeout_that_sockets_know(self, timeout_s: float) -> None:
        with pytest.raises(BadOption, match="timeout_s"):
            Client("http://h", "t", timeout_s=timeout_s)

    @looped("proxy", ["socks5://127.0.0.1:9", "socks9://127.0.0.1:9"])
    def test_refuse_a_proxy_that_none_can_use(self, proxy: str) -> None:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("ALL_PROXY", proxy)
            for client in (Client, AsyncClient):
                with pytest.raises(BadOption, match="proxy"):
                    client("http://h", "t")

    def test_are_those_of_the_environment_unless_they_are_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JOBFARM_URL", "http://farm.example")
        monkeypatch.setenv("JOBFARM_TOKEN", "")
        with pytest.raises(BadOption, match="JOBFARM_TOKEN"):
            Client()
        Client(token="jft_x").close()


def test_a_twin_names_the_job() -> None:
    assert NotUnique(status=409, code="not_unique", message="", details={"job": 3}).job == 3
