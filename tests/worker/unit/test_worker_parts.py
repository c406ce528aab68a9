"""The worker's parts on their own: flush rule, outbox, backoff, options, the words of the protocol."""

from __future__ import annotations

import json
import random
import threading
import tracemalloc
from dataclasses import replace
from statistics import median
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jobfarm_client.backoff import Backoff, delay_s
from jobfarm_worker import BadOption, Handlers, JobStopped, Unreachable, protocol
from jobfarm_worker.job import Job
from jobfarm_worker.options import Options
from jobfarm_worker.outbox import PIECE, File, Outbox, Progress, is_due
from jobfarm_worker.protocol import Call, ClaimedJob, storable
from tests.looped import looped

GOOD: dict[str, Any] = {
    "url": "http://farm.example:8000/base/",
    "key": "a-key\n",
    "queues": None,
    "concurrency": 1,
    "transport": "auto",
    "grace_s": 10,
}


def outbox() -> Outbox:
    return Outbox(wake=lambda: None)


def allocated(*, writes: int) -> float:
    """The memory that a write asks for beside the text itself, times their number: the median, since threads of other
    tests may ask for some too."""
    box, sizes, text = outbox(), [], "z" * 250
    tracemalloc.start()
    try:
        for _ in range(writes):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            box.write(text, may_block=False)
            sizes.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    return median(sizes) * writes


def job(box: Outbox) -> Job:
    claimed = ClaimedJob(id=7, kind="k", queue="q", payload=None, attempt=1, lease="l", heartbeat_s=20)

    async def confirmed() -> None:
        return None

    return Job(claimed, outbox=box, confirmed=confirmed)


class TestFlushRule:
    @pytest.mark.parametrize("sign", list("\n.?!,"))
    def test_is_met_by_each_of_its_signs_anywhere(self, sign: str) -> None:
        assert is_due(f"before{sign}after")

    @pytest.mark.parametrize(("text", "due"), [("", False), ("x" * 100, False), ("x" * 101, True), (";: -", False)])
    def test_is_met_by_more_than_a_hundred_characters(self, text: str, due: bool) -> None:
        assert is_due(text) is due


class TestOutbox:
    def test_sends_the_whole_buffer_and_not_only_up_to_the_sign(self) -> None:
        box = outbox()
        for word in ("Hello", ", wor"):
            box.write(word, may_block=False)
        assert (box.take_text(), box.take_text()) == ("Hello, wor", "")

    def test_keeps_what_is_not_due_until_it_is_flushed(self) -> None:
        box = outbox()
        box.write("Hello", may_block=False)
        before = box.take_text()
        box.flush()
        assert (before, box.take_text()) == ("", "Hello")

    def test_knows_how_long_text_that_is_not_due_may_still_wait(self) -> None:
        clock = iter([10.0, 10.25, 10.5, 20.0, 20.0])
        box = Outbox(wake=lambda: None, clock=lambda: next(clock))
        left_s = [box.due_in_s]
        for text in ("Loa", "ding", "!", "Next"):  # the second is counted from the first word
            box.write(text, may_block=False)
            left_s.append(box.due_in_s)
        assert left_s == [None, 0.75, 0.5, None, 1.0]

    @given(st.lists(st.text(max_size=200), max_size=30))
    def test_gives_every_character_once_and_in_order(self, texts: list[str]) -> None:
        box = outbox()
        taken = ""
        for text in texts:
            box.write(text, may_block=False)
            taken += box.take_text()
        box.flush()
        assert taken + box.take_text() == "".join(texts)

    def test_cuts_a_long_text_into_pieces_that_a_farm_takes(self) -> None:
        box = outbox()
        box.write("x" * (2 * PIECE + 1), may_block=False)
        assert [len(box.take_text()) for _ in range(4)] == [PIECE, PIECE, 1, 0]

    def test_cuts_nothing_that_was_written_in_short_pieces_and_joins_what_goes_into_a_call(self) -> None:
        box = outbox()
        for _ in range(1_000):
            box.write("y" * 200, may_block=False)
        sizes = [len(box.take_text()) for _ in range(5)]
        assert sizes == [PIECE - PIECE % 200, PIECE - PIECE % 200, PIECE - PIECE % 200, 200_000 - 3 * sizes[0], 0]

    def test_moves_the_same_text_the_same_number_of_times_however_much_of_it_lies_there(self) -> None:
        """Counted in bytes that are allocated anew: a copy of what lies there at each write would be its square."""
        assert allocated(writes=4_000) < 8 * allocated(writes=1_000)

    def test_merges_progress_and_lets_a_part_that_says_nothing_keep_the_older(self) -> None:
        box = outbox()
        box.report(Progress(fraction=0.1, detail="Painting"))
        box.report(Progress(fraction=0.2, detail=None))
        assert box.take_progress() == Progress(fraction=0.2, detail="Painting")
        assert box.take_progress() is None

    def test_takes_progress_back_but_prefers_what_came_meanwhile(self) -> None:
        box = outbox()
        box.report(Progress(fraction=0.5, detail=None))
        box.give_back(Progress(fraction=0.2, detail="Old"))
        assert box.take_progress() == Progress(fraction=0.5, detail="Old")

    def test_replaces_a_file_that_has_not_left_yet(self) -> None:
        box = outbox()
        for name, data in (("a", b"1"), ("b", b"2"), ("a", b"3")):
            box.put(File(name=name, data=data))
        assert [box.take_file() for _ in range(3)] == [File(name="b", data=b"2"), File(name="a", data=b"3"), None]

    def test_lets_a_plain_handler_wait_for_the_network_and_frees_it_when_stopped(self) -> None:
        box = outbox()
        waiting = threading.Event()
        ended: list[str] = []

        def produce() -> None:
            try:
                for _ in range(100):
                    box.write("x" * 100_000, may_block=True)
                    waiting.set()
            except JobStopped:
                ended.append("stopped")

        thread = threading.Thread(target=produce)
        thread.start()
        assert waiting.wait(10)
        box.stop()
        thread.join(10)
        assert ended == ["stopped"]


class TestJob:
    def test_clamps_progress_and_refuses_what_is_no_number(self) -> None:
        box = outbox()
        for given_, sent in ((1.0000001, 1.0), (-0.1, 0.0), (1, 1.0)):
            job(box).progress(given_)
            assert box.take_progress() == Progress(fraction=sent, detail=None)
        with pytest.raises(ValueError, match="from 0 to 1"):
            job(box).progress(float("nan"))

    def test_writes_nothing_that_the_database_cannot_hold(self) -> None:
        box = outbox()
        job(box).write("a\0b\ud800c \U0001f600.")
        assert box.take_text() == "a\ufffdb\ufffdc \U0001f600."

    @looped("name", ["", ".", "..", ".hidden", "a/b", "a\\b", "a b", "a\n", "x" * 101, "größe.png"])
    def test_refuses_a_name_that_is_no_plain_file_name(self, name: str) -> None:
        with pytest.raises(ValueError, match="plain file name"):
            job(outbox()).file(name, b"")

    def test_refuses_output_that_is_no_text(self) -> None:
        with pytest.raises(TypeError, match="bytes"):
            job(outbox()).write(b"bytes")  # type: ignore[arg-type]

    def test_does_not_let_an_async_handler_block_the_loop_with_pause(self) -> None:
        with pytest.raises(RuntimeError, match=r"asyncio\.sleep"):
            job(outbox()).pause(1)


class TestBackoff:
    @given(failures=st.integers(0, 10_000), seed=st.integers())
    def test_stays_between_nothing_and_its_ceiling(self, failures: int, seed: int) -> None:
        pause_s = delay_s(failures, rng=random.Random(seed), base_s=0.5, cap_s=30)
        assert 0 <= pause_s <= min(30, 0.5 * 2 ** min(max(failures, 1) - 1, 10))

    def test_grows_with_each_failure_and_starts_again_after_a_success(self) -> None:
        class Highest(random.Random):
            def uniform(self, _a: float, b: float) -> float:
                return b

        backoff = Backoff(rng=Highest())
        grown = [backoff.failed() for _ in range(8)]
        backoff.succeeded()
        assert (grown, backoff.failed()) == ([0.5, 1, 2, 4, 8, 16, 30, 30], 0.5)


class TestOptions:
    def test_are_tidied(self) -> None:
        options = Options(**GOOD)
        assert (options.url, options.key) == ("http://farm.example:8000/base", "a-key")
        assert options.socket_url == "ws://farm.example:8000/base/ws/worker/"
        assert Options(**{**GOOD, "url": "https://farm.example"}).socket_url == "wss://farm.example/ws/worker/"

    @looped(
        ("name", "value"),
        [
            ("url", "localhost:8000"),
            ("url", "http://"),
            ("url", "ftp://farm.example"),
            ("url", "http://farm.example:no"),
            ("url", "http://farm.example/?x=1"),
            ("key", " "),
            ("key", "two keys"),
            ("key", "schlüssel"),
            ("concurrency", 0),
            ("transport", "pigeon"),
            ("queues", "a,b"),
            ("grace_s", -1),
            ("grace_s", float("nan")),
        ],
    )
    def test_that_make_no_sense_are_refused_with_a_sentence(self, name: str, value: object) -> None:
        with pytest.raises(BadOption, match=r"\.$|\?$"):
            Options(**{**GOOD, name: value})


class TestWire:
    def test_says_one_call_over_http_and_over_the_socket(self) -> None:
        call = Call(verb="output", job=7, body={"lease": "l", "seq": 0, "text": "hé"})
        assert call.path == "/api/v1/worker/jobs/7/output"
        assert json.loads(call.message(ref=3)) == {
            "type": "output", "ref": 3, "job": 7, "lease": "l", "seq": 0, "text": "hé",
        }  # fmt: skip

    def test_gives_each_request_an_id_of_its_own_and_keeps_it(self) -> None:
        first, second = protocol.claim(queues=["a"], limit=2), protocol.claim(queues=None, limit=1)
        own = first.body["request_id"]
        assert own.isascii()
        assert 1 <= len(own) <= 64
        assert own != second.body["request_id"]
        assert protocol.waiting(first, seconds=25) == Call(
            verb="claim", body={"queues": ["a"], "limit": 2, "request_id": own, "wait": 25}
        )

    def test_reads_a_claimed_job(self) -> None:
        received_s = {"id": 7, "kind": "k", "queue": "q", "payload": {"a": 1}, "attempt": 2, "lease": "l"}
        answer = {"lease_expires_at": "whenever", "heartbeat_every": 5, "more": True, **received_s}
        expected = ClaimedJob(id=7, kind="k", queue="q", payload={"a": 1}, attempt=2, lease="l", heartbeat_s=5.0)
        assert protocol.claimed_jobs({"jobs": [answer]}) == [expected]
        [careful] = protocol.claimed_jobs(
            {"jobs": [{**answer, "fence": 5, "max_attempts": 3, "retry_when_lost": False}]}
        )
        assert careful == replace(expected, fence=5, max_attempts=3, retry_when_lost=False)
        assert protocol.claimed_jobs({}) == []

    @pytest.mark.parametrize("received_s", [None, float("inf"), float("nan")])
    def test_falls_back_to_a_heartbeat_every_20_seconds(self, received_s: float | None) -> None:
        answer = {"jobs": [{"id": 7, "kind": "k", "lease": "l", "heartbeat_every": received_s}]}
        assert protocol.claimed_jobs(answer)[0].heartbeat_s == 20

    @pytest.mark.parametrize("jobs", [[{}], ["x"], [{"id": "x", "kind": "k", "lease": "l"}], 7])
    def test_does_not_guess_at_a_job_it_cannot_read(self, jobs: object) -> None:
        with pytest.raises(Unreachable):
            protocol.claimed_jobs({"jobs": jobs})

    @given(st.text())
    def test_leaves_good_text_alone(self, text: str) -> None:
        if "\0" not in text:
            assert storable(text) == text


class TestHandlers:
    def test_are_one_a_kind(self) -> None:
        handlers = Handlers()
        handlers.handler("a")(print)
        with pytest.raises(BadOption, match="Two handlers"):
            handlers.handler("a")(repr)
        with pytest.raises(BadOption, match="Two handlers"):
            handlers.include(handlers)
        assert (list(handlers), handlers.get("a"), handlers.get("b")) == (["a"], print, None)
